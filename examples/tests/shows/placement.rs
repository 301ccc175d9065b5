use crate::support::{example, run};

#[test]
fn plans_are_printed_term_by_term_and_the_longest_context_is_loaded() {
    let printed = run(&example("placement"), &[]).fine();
    for word in ["auto: ", "cpu: the CPU", "cuda0: ", "KV cache", "of", "read a token", "a card of 24 GiB: "]
    {
        assert!(printed.contains(word), "{word}: {printed}");
    }
    assert!(printed.contains("loaded on the CPU"), "{printed}");
}
