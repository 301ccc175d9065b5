//! What a block takes of a card, on cards that do not exist.

use super::joined::Joined;
use super::{Engine, Placement, QWEN35, V4, unsupported};
use crate::backend::cuda::{Sizes, dense_bytes, guess_bytes, weight_bytes};
use crate::plan::{CardFacts, Cards, Context, Plan};
use crate::program::{Op, Program};
use crate::units::Bytes;

fn plan(file: &Joined, place: Placement) -> Plan {
    let cards = Cards::given([CardFacts::new("made up", Bytes(80 << 30))]);
    Engine::builder(file.path()).placement(place).cards(cards).plan().unwrap()
}

fn term(plan: &Plan, what: &str) -> Bytes {
    plan.terms().iter().find(|term| term.what == what).unwrap().bytes
}

fn sizes(plan: &Plan, program: &Program) -> Sizes {
    Sizes::of(program, &plan.weights, plan.kv, (plan.step_rows, plan.sessions))
}

#[test]
fn a_whole_model_has_its_block_on_the_card() {
    let plan = plan(&Joined::write(QWEN35), Placement::card(0));
    assert_eq!(plan.no_block(), None);
    assert!(!plan.to_string().contains("block"), "{plan}");
    let (program, trunk) = (&plan.program, plan.program.trunk());
    let [all, without] = [program, &trunk].map(|program| weight_bytes(program, &plan.weights, &plan.gguf));
    assert_eq!(term(&plan, "weights"), all);
    // All of the block's tensors but its vectors, which are always there.
    let tensors =
        plan.gguf.tensors().filter(|tensor| tensor.name.starts_with("blk.4.") && tensor.dims.len() > 1);
    let block: u64 = tensors.map(|tensor| plan.gguf.data(tensor).len() as u64).sum();
    let found = all.saturating_sub(without).0;
    assert!(found.abs_diff(block) <= block / 50, "{found} of {block}");
    let draft = program.draft.as_ref().unwrap();
    assert_eq!(program.state_len(), trunk.state_len() + draft.carried);
    assert_eq!(program.attentions.len(), trunk.attentions.len() + 1);

    // Embeddings of all rows have to find room.
    let sizes_with = sizes(&plan, program);
    assert!(sizes_with.recurrent && sizes_with.workspace >= 4 * plan.step_rows * plan.def.hidden);
    let mut dense = program.clone();
    dense.deltas.clear();
    assert!(sizes(&plan, &dense).recurrent && !sizes(&plan, &Program { draft: None, ..dense }).recurrent);
}

#[test]
fn a_block_follows_before_rows_are_taken() {
    let plan = plan(&Joined::write(QWEN35), Placement::card(0));
    let ops: Vec<&Op> = plan.program.step_ops().collect();
    let draft = plan.program.draft.as_ref().unwrap();
    let follow: usize = draft.follow.iter().map(|insert| insert.ops.len()).sum();
    assert_eq!(ops.len(), plan.program.ops.len() + follow);
    let place = |is: fn(&Op) -> bool| ops.iter().position(|op| is(op)).unwrap();
    let (previous, pair) =
        (place(|op| matches!(op, Op::Previous { .. })), place(|op| matches!(op, Op::Pair { .. })));
    assert!(previous < pair && pair < place(|op| matches!(op, Op::Take { .. })));
    assert!(matches!(ops.last(), Some(Op::Project { .. })));
    assert!(matches!(
        draft.ops[..],
        [Op::Carried { .. }, Op::Pair { .. }, .., Op::Norm { .. }, Op::Project { .. }]
    ));
}

#[test]
fn blocks_that_a_card_cannot_run_take_nothing() {
    let whole = plan(&Joined::write(QWEN35), Placement::card(0));
    let trunk = whole.program.trunk();
    let odd = plan(&unsupported(), Placement::card(0));
    assert!(odd.no_block().unwrap().contains("`blk.4.nextn.eh_proj.weight` is stored as F64"), "{odd}");
    assert_eq!(term(&odd, "weights"), weight_bytes(&trunk, &whole.weights, &whole.gguf));
    let split = plan(&unsupported(), Placement::split(0));
    for plan in [&odd, &split] {
        assert!(plan.to_string().contains("; without the block for the next tokens: "), "{plan}");
        assert!(plan.program.draft.is_none() && plan.program.state_bytes() == trunk.state_bytes());
        assert_eq!(plan.program.page_bytes(plan.kv).unwrap(), trunk.page_bytes(plan.kv).unwrap());
        let states = term(plan, "recurrent states");
        assert_eq!(states.0, plan.states.slots as u64 * trunk.state_bytes().0);
    }
    // The whole model is a byte too large.
    let need: Bytes = whole.terms().iter().map(|term| term.bytes).sum();
    let small = |free| {
        let card = CardFacts { free, ..CardFacts::new("made up", Bytes(80 << 30)) };
        let file = Joined::write(QWEN35);
        let builder = Engine::builder(file.path()).placement(Placement::Auto).cards(Cards::given([card]));
        builder.step_rows(whole.step_rows).context(Context::Tokens(whole.context())).plan().unwrap()
    };
    assert_eq!(small(need).no_block(), None);
    let small = small(need.saturating_sub(Bytes(1)));
    assert_eq!((small.no_block(), small.placement()), (Some("there is no room for it"), Placement::Card(0)));
    // The CPU runs both.
    let on_cpu = plan(&unsupported(), Placement::Cpu);
    assert!(on_cpu.no_block().is_none() && on_cpu.program.draft.is_some());
}

#[test]
fn a_split_has_its_block_on_the_card() {
    [QWEN35, V4].into_iter().for_each(split_with_block);
}

fn split_with_block(arch: &str) {
    let file = Joined::write(arch);
    let split = plan(&file, Placement::split(0));
    assert_eq!(split.no_block(), None);
    let (program, trunk) = (&split.program, split.program.trunk());
    let all = dense_bytes(program, &split.weights, &split.gguf);
    // Experts of the block beside its other tensors.
    let experts = guess_bytes(program, &split.weights, &split.gguf);
    assert!(experts.0 > 0 && guess_bytes(&trunk, &split.weights, &split.gguf).0 == 0);
    assert_eq!(term(&split, "dense weights"), all + experts);
    // On a card with half the room for experts the block would take that of too many.
    let need: Bytes = split.terms().iter().map(|term| term.bytes).sum();
    let free = need.saturating_sub(Bytes(term(&split, "expert slots").0 / 2));
    let card = CardFacts { free, ..CardFacts::new("made up", Bytes(80 << 30)) };
    let builder = Engine::builder(file.path()).placement(Placement::split(0)).cards(Cards::given([card]));
    let builder = builder.step_rows(split.step_rows).context(Context::Tokens(split.context()));
    let small = builder.plan().unwrap();
    assert!(small.no_block().unwrap().starts_with("it would leave room for "), "{small}");
    assert!(small.program.draft.is_none());
}
