//! Instructions of the committed PTX: what must not be there, and what the speed rests on.

use super::super::module::{self, Family};
use super::super::testing::card;

/// A kernel of a PTX file.
struct Kernel<'a> {
    name: &'a str,
    lines: Vec<&'a str>,
}

fn kernels(text: &str) -> Vec<Kernel<'_>> {
    let mut found: Vec<Kernel<'_>> = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix(".visible .entry ") {
            found.push(Kernel { name: rest.trim_end_matches('('), lines: Vec::new() });
        } else if let Some(kernel) = found.last_mut() {
            kernel.lines.push(line);
        }
    }
    found
}

fn all(check: impl Fn(&Family, &Kernel<'_>)) {
    for family in module::ALL {
        for text in family.texts() {
            let kernels = kernels(text);
            assert!(!kernels.is_empty(), "{} has no kernels", family.name);
            kernels.iter().for_each(|kernel| check(family, kernel));
        }
    }
}

/// The registers of `mul.rn.f32 %r1, %r2, %r3;` or the like.
fn operands<'a>(line: &'a str, instruction: &str) -> Option<Vec<&'a str>> {
    Some(line.strip_prefix(instruction)?.trim_end_matches(';').split(',').map(str::trim).collect())
}

/// Sums whose terms are products that were rounded before, within a run of straight code.
fn unfused(lines: &[&str]) -> Vec<String> {
    let (mut products, mut found) = (Vec::new(), Vec::new());
    for line in lines {
        if line.ends_with(':') || line.contains("bra") {
            products.clear();
        } else if let Some(operands) = operands(line, "mul.rn.f32") {
            products.push(operands[0]);
        } else if let Some(operands) = operands(line, "add.rn.f32")
            && operands[1..].iter().any(|operand| products.contains(operand))
        {
            found.push((*line).to_owned());
        }
    }
    found
}

#[test]
fn no_calls_no_local_memory_no_products_rounded_twice() {
    all(|family, kernel| {
        let (family, name) = (family.name, kernel.name);
        for line in &kernel.lines {
            assert!(!line.starts_with("call"), "{family}: {name}: {line}");
            assert!(!line.contains(".local"), "{family}: {name}: {line}");
        }
        // Dequantising is two roundings by definition, and so is what a tile adds to a sum.
        if !name.starts_with("few_") && !["embed", "many_products", "project_both"].contains(&name) {
            assert_eq!(unfused(&kernel.lines), Vec::<String>::new(), "{family}: {name}");
        }
    });
}

#[test]
fn products_load_sixteen_bytes_at_a_time_and_run_on_tensor_cores() {
    let mut products = 0;
    all(|_, kernel| {
        let count = |instruction: &str| kernel.lines.iter().filter(|line| line.contains(instruction)).count();
        let tiles =
            kernel.name.starts_with("few_") || ["many_products", "project_both"].contains(&kernel.name);
        let floats = ["project_float", "gate_up_float", "down_float", "project_both"];
        if tiles || floats.iter().any(|start| kernel.name.starts_with(start)) {
            assert!(count("cp.async") >= 2, "{}", kernel.name);
            assert!(count("ld.shared.v4.b32") >= 2, "{}", kernel.name);
            // Five formats with 8 or 16 products of bytes a tile, and one with 8.
            assert!(!tiles || count("mma.sync") >= 3 * 8 + 2 * 16 + 8, "{}", kernel.name);
            assert!(tiles || count("fma.rn.f32") >= 24, "{}", kernel.name);
        }
        // Sixteens by eights of a warp, by products of a piece: four of halves, six of floats.
        let many = ["many_half", "many_bfloat", "many_heads", "many_single"];
        if let Some(kind) = many.iter().find(|start| kernel.name.starts_with(**start)) {
            let (tiles, each) = (if kernel.name.ends_with("_128") { 16 } else { 8 }, [4, 4, 4, 6]);
            let each = each[many.iter().position(|start| start == kind).unwrap_or(0)];
            let (found, piece) = (count("mma.sync"), tiles * each);
            assert!(found >= piece && found.is_multiple_of(piece), "{}: {found}", kernel.name);
            assert!(count("cp.async.cg") >= 2, "{}", kernel.name);
            assert!(count("ld.shared.v4.b32") >= 8 && count("ld.shared") == count("ld.shared.v4.b32"));
        }
    });
    for family in module::ALL {
        products += kernels(family.texts()[0])
            .iter()
            .filter(|kernel| kernel.lines.iter().any(|line| line.contains(".s8.s8.s32")))
            .count();
    }
    assert_eq!(
        products, 7,
        "projections, with floats too, two halves of experts without and with a network beside them, and many rows"
    );
}

/// Kernels that release nothing before they end, because blocks of the next one must not come while they run.
const LATE: [&str; 2] = ["delta_convolve", "delta_channels_convolve"];

#[test]
fn kernels_overlap_where_the_card_can() {
    for family in module::ALL {
        let [old, new] = family.texts();
        assert!(!old.contains("griddepcontrol"), "{}", family.name);
        let kernels = kernels(new);
        for kernel in kernels {
            let position = |word: &str| kernel.lines.iter().position(|line| line.starts_with(word));
            let (wait, release) =
                (position("griddepcontrol.wait"), position("griddepcontrol.launch_dependents"));
            let late = LATE.contains(&kernel.name) && release.is_none();
            assert!(
                wait.is_some() && (late || wait < release),
                "{}: releases its successor before it has waited",
                kernel.name
            );
        }
    }
}

#[test]
fn the_census_sees_products_rounded_twice() {
    let lines = ["mul.rn.f32 %r1, %r2, %r3;", "add.rn.f32 %r4, %r5, %r1;"];
    assert_eq!(unfused(&lines), ["add.rn.f32 %r4, %r5, %r1;"]);
    assert!(unfused(&["mul.rn.f32 %r1, %r2, %r3;", "$L1:", "add.rn.f32 %r4, %r5, %r1;"]).is_empty());
    assert!(unfused(&["mul.rn.f32 %r1, %r2, %r3;", "add.rn.f32 %r4, %r5, %r6;"]).is_empty());
}

#[test]
fn every_kernel_loads_on_the_card_without_local_memory() {
    let Some(device) = card() else { return };
    for family in module::ALL {
        let start = std::time::Instant::now();
        for kernel in kernels(family.texts()[usize::from(device.info().overlaps())]) {
            let name: &'static str = Box::leak(kernel.name.to_owned().into_boxed_str());
            let function = device.modules().function(&device, family, name).unwrap();
            let resources = device.modules().resources(function).unwrap();
            assert_eq!(resources.local_bytes, 0, "{name}");
            println!("{name}: {} registers", resources.registers);
        }
        println!("{} loads in {:?}", family.name, start.elapsed());
    }
}
