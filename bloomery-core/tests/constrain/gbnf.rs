//! llama.cpp's grammar notation.

use bloomery_core::constrain::Grammar;

use crate::support::{check, refusal};

#[test]
fn arithmetic() {
    let grammar = Grammar::gbnf(
        r#"
# sums of terms
root  ::= (expr "=" term "\n")+
expr  ::= term ([-+*/] term)*
term  ::= ident | num | "(" ws expr ")" ws
ident ::= [a-z] [a-z0-9_]* ws
num   ::= [0-9]+ ws
ws    ::= [ \t\n]*
"#,
    );
    check(
        &grammar,
        &["a=b\n", "x +y2*( 3 -z) =12\n\n", "a=1\nb=2\n", "1=1 \n\n\n", "((1))=a\n"],
        &["", "a=b", "a==b\n", "a+=b\n", "(a=b\n", "A=1\n", "a=1\nb"],
    );
}

#[test]
fn json() {
    let grammar = Grammar::gbnf(
        r#"
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws

object ::=
  "{" ws (
            string ":" ws value
    ("," ws string ":" ws value)*
  )? "}" ws

array  ::=
  "[" ws (
            value
    ("," ws value)*
  )? "]" ws

string ::=
  "\"" (
    [^"\\\x7F\x00-\x1F] |
    "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) # escapes
  )* "\"" ws

number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws

# Optional space: by convention, applied in this grammar after literal chars when allowed
ws ::= | " " | "\n" [ \t]{0,20}
"#,
    );
    check(
        &grammar,
        &[
            "{}",
            "{ }\n",
            r#"{"a": [1, -2.5e3, "x\n\u00e9 \"", true, null], "b": {"c": []}}"#,
            "{\"fox\":\n    \"jumps é 漢\"}",
            "{\"a\":0.5 ,\"b\":false }",
        ],
        &["[]", "{", "{\"a\":}", "{\"a\":01}", "{\"a\":\"\\x\"}", "{\"a\":1,}", "{\"a\":  1}", "{'a':1}"],
    );
}

#[test]
fn lists_and_moves() {
    let list =
        Grammar::gbnf("root ::= item+\nitem ::= \"- \" [^\\r\\n\\x0b\\x0c\\x85\\u2028\\u2029]+ \"\\n\"");
    check(&list, &["- a\n", "- a b\n- c\n"], &["", "- \n", "- a", "a\n", "-a\n"]);
    let moves = Grammar::gbnf(
        r#"root ::= "1. " move " " move "\n" ([1-9] [0-9]? ". " move " " move "\n")+
move ::= (pawn | nonpawn | castle) [+#]?
nonpawn ::= [NBKQR] [a-h]? [1-8]? "x"? [a-h] [1-8]
pawn ::= ([a-h] "x")? [a-h] [1-8] ("=" [NBKQR])?
castle ::= "O-O" "-O"?"#,
    );
    check(
        &moves,
        &["1. e4 e5\n2. Nf3 Nc6\n", "1. d4 O-O\n2. Qxh7+ O-O-O\n10. exd8=Q# Rab1\n"],
        &["1. e4 e5\n", "1. e4 e5\n2. Nf9 Nc6\n", "2. e4 e5\n2. Nf3 Nc6\n", "1. e4 e5\n2. O-O-O-O e4\n"],
    );
}

#[test]
fn c_like() {
    let grammar = Grammar::gbnf(
        r#"
root ::= (declaration)*
declaration ::= dataType identifier "(" parameter? ")" "{" statement* "}"
dataType  ::= "int" ws | "float" ws | "char" ws
identifier ::= [a-zA-Z_] [a-zA-Z_0-9]*
parameter ::= dataType identifier
statement ::=
    ( dataType identifier ws "=" ws expression ";" ) |
    ( identifier ws "=" ws expression ";" ) |
    ( identifier ws "(" argList? ")" ";" ) |
    ( "return" ws expression ";" ) |
    ( "while" "(" condition ")" "{" statement* "}" ) |
    ( "if" "(" condition ")" "{" statement* "}" ("else" "{" statement* "}")? ) |
    ( singleLineComment ) |
    ( multiLineComment )
condition ::= expression relationOperator expression
relationOperator ::= ("<=" | "<" | "==" | "!=" | ">=" | ">")
expression ::= term (("+" | "-") term)*
term ::= factor(("*" | "/") factor)*
factor ::= identifier | number | unaryTerm | funcCall | parenExpression
unaryTerm ::= "-" factor
funcCall ::= identifier "(" argList? ")"
parenExpression ::= "(" ws expression ws ")"
argList ::= expression ("," ws expression)*
number ::= [0-9]+
singleLineComment ::= "//" [^\n]* "\n"
multiLineComment ::= "/*" ( [^*] | ("*" [^/]) )* "*/"
ws ::= ([ \t\n]+)
"#,
    );
    check(
        &grammar,
        &[
            "",
            "int main(){return 0;}",
            "int f(int x){int y = x+1;while(x<=y){x = f(x, 1)*-2;}//done\n/* a * b */return (\n 1 );}float g(){}",
            "char c(){returned = 1;if(a==b){}else{return a;}}",
        ],
        &["int main()", "int main(){return 0}", "int main(){1 = 1;}", "main(){}", "int f(){x = 1}"],
    );
}

#[test]
fn says_where_and_what() {
    let cases = [
        ("root ::= \"a", "grammar, line 1, column 12: expected `\"`, found the end of the grammar"),
        ("root ::= a", "grammar, line 1, column 10: rule `a` is not defined"),
        ("", "grammar: there is no rule `root`"),
        ("rood ::= \"a\"", "grammar: there is no rule `root`"),
        ("root ::= root", "grammar: rule `root` matches no finite text"),
        ("root ::= [a-z]{0,1000000}", "grammar, rule `root`: 1000000 repetitions, at most 2000 are allowed"),
        ("root ::= (a", "grammar, line 1, column 12: expected `)`, found the end of the grammar"),
        ("\nroot := \"a\"", "grammar, line 2, column 7: expected `::=`, found `=`"),
        ("root ::= * \"a\"", "grammar, line 1, column 10: expected something to repeat, found `*`"),
        (
            "root ::= <nothing-like-it>",
            "grammar, line 1, column 10: `<nothing-like-it>` is not one token of the vocabulary",
        ),
    ];
    for (text, message) in cases {
        assert_eq!(refusal(&Grammar::gbnf(text)), message, "{text:?}");
    }
}

#[test]
fn exact_counts() {
    check(&Grammar::gbnf("root ::= \"a\"{5,5}"), &["aaaaa"], &["", "aaaa", "aaaaaa"]);
    check(&Grammar::gbnf("root ::= \"a\"{2,}"), &["aa", "aaaaaaaa"], &["a", ""]);
    check(&Grammar::gbnf("root ::= (\"a\" | \"b\" root)"), &["a", "ba", "bba"], &["b", ""]);
    check(&Grammar::gbnf("root ::= root \"a\" | \"a\""), &["a", "aa", "aaa"], &["b", ""]);
}

#[test]
fn long_lists() {
    let rules = [
        "root ::= item (\",\" root)?\nitem ::= [a-z]+ | \"(\" root \")\"",
        "root ::= item | item \",\" root\nitem ::= [a-z]+ | \"(\" root \")\"",
        "root ::= item | root \",\" item\nitem ::= [a-z]+ | \"(\" root \")\"",
        "root ::= \"(\" root \")\" (\",\" root | \"\") | [a-z]+ (\",\" root | \"\")",
    ];
    let long = vec!["a"; 3000].join(",");
    for rules in rules {
        let fitting = ["a", "a,b", "(a,b),c", "((a)),b,(c)", &long];
        check(&Grammar::gbnf(rules), &fitting, &["", "a,", ",a", "(a", "(a,)b", "a b"]);
    }
}
