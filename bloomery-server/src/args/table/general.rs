use crate::args::flag::{Flag, Print, bare, print, switch};

pub(super) static FLAGS: &[Flag] = &[
    print("-h --help --usage", Print::Help).doc("print this and exit"),
    print("--version", Print::Version).doc("print the version and exit"),
    print("--list-devices", Print::Devices).doc("print what this machine computes on and exit"),
    print("-cl --cache-list", Print::Cached).doc("print the models in the cache of downloads and exit"),
    print("--completion-bash", Print::Completion).doc("print a completion script for bash and exit"),
    switch("--plan --dry-run", |draft, on| draft.plan_only = on)
        .doc("print the memory plan and exit; weights are not read"),
    bare("-e --escape")
        .off("--no-escape")
        .ignored("escapes in -r and --dry-sequence-breaker are always read"),
    bare("--print-template").refused("GET /props shows the template"),
    bare("--levers").refused("there are no levers: options are flags"),
    bare("--records-schema").refused("there are no records in this release"),
];
