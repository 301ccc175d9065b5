mod ngram;
mod price;
