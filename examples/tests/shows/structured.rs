use crate::support::{Folder, demo, example, run};

#[test]
fn every_answer_fits_the_type_and_a_wrong_schema_is_an_error_of_its_own() {
    let file = demo();
    for words in [&[][..], &[file.to_str().unwrap()]] {
        let printed = run(&example("structured"), words).fine();
        let lines: Vec<&str> = printed.lines().collect();
        assert!(
            ["Forest", "Farm", "Sea"].iter().any(|place| lines[0].ends_with(&format!(", in the {place}"))),
            "{printed}"
        );
        // A title may begin like an animal.
        let of_animal = |line: &&str| line.ends_with(" years old");
        let animals: Vec<&str> =
            lines.iter().filter_map(|line| line.strip_prefix("- ")).filter(of_animal).collect();
        assert!((1..=3).contains(&animals.len()), "{printed}");
        for animal in animals {
            let (name, age) = animal.split_once(", ").unwrap();
            assert!(
                (2..=12).contains(&name.len()) && name.starts_with(|c: char| c.is_ascii_uppercase()),
                "{printed}"
            );
            let age: u8 = age.strip_suffix(" years old").unwrap().parse().unwrap();
            assert!((1..=30).contains(&age), "{printed}");
        }
        assert!(lines.last().unwrap().contains("at #/properties/title: look-around"), "{printed}");
    }
}

#[test]
fn a_file_that_is_no_model_is_named_as_such() {
    let folder = Folder::new();
    let ran = run(&example("structured"), &[&folder.write("text.gguf", b"not a model")]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stdout.is_empty() && ran.stderr.contains("Gguf"), "{ran:?}");
}
