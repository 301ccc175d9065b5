//! Every kernel against the CPU's numbers: on a card where there is one, else emulated.

mod attention;
mod beside;
mod candidates;
mod census;
mod copies;
mod delta;
mod delta_channels;
mod draft;
mod embed;
mod experts;
mod gate;
mod group;
mod heads;
mod latent;
mod narrow;
mod norm;
mod oracle;
mod pack;
mod paged;
mod project;
mod rope;
mod route;
mod seats;
mod take;
