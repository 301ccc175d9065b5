//! The entry points of the products of few rows.

macro_rules! entries {
    ($($name:ident $args:ident $kernel:path,)*) => {$(
        crate::simt::bounds!($name, 512, 1);

        /// See the function of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "ptx-kernel" fn $name(args: crate::abi::few::$args) {
            $kernel(args);
        }
    )*};
}

entries! {
    few_project ProjectArgs crate::few::project::project,
    few_gate_up GateUpArgs crate::few::gate_up::gate_up::<false>,
    few_down DownArgs crate::few::down::down::<false>,
    few_gate_up_beside GateUpArgs crate::few::gate_up::gate_up::<true>,
    few_down_beside DownArgs crate::few::down::down::<true>,
}
