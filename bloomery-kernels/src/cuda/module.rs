//! The kernels' code: one module for every op family, loaded when it is first used.

use std::collections::HashMap;
use std::ffi::{CString, c_char, c_void};
use std::marker::PhantomData;
use std::sync::{Mutex, OnceLock, PoisonError};

use cudarc::driver::{result, sys};

use super::{CudaError, Device};

/// An op family: a PTX file for each architecture.
#[derive(Debug)]
pub(super) struct Family {
    pub(super) name: &'static str,
    sm_80: &'static str,
    sm_90: &'static str,
}

macro_rules! family {
    ($constant:ident: $name:literal) => {
        pub(super) static $constant: Family = Family {
            name: $name,
            sm_80: include_str!(concat!("../../ptx/", $name, ".sm_80.ptx")),
            sm_90: include_str!(concat!("../../ptx/", $name, ".sm_90.ptx")),
        };
    };
}

family!(ATTENTION: "attention");
family!(CHOSEN: "chosen");
family!(DELTA: "delta");
family!(DELTA_CHANNELS: "delta_channels");
family!(DRAFT: "draft");
family!(EMBED: "embed");
family!(EXPERTS_FLOAT: "experts_float");
family!(FEW: "few");
family!(HEADS: "heads");
family!(INDEX: "index");
family!(MANY: "many");
family!(MANY_FLOAT: "many_float");
family!(NGRAMS: "ngrams");
family!(NORM: "norm");
family!(PACK: "pack");
family!(PREFILL: "prefill");
family!(PROJECT_BOTH: "project_both");
family!(PROJECT_FLOAT: "project_float");
family!(ROUTE: "route");
family!(ROUTE_RAW: "route_raw");
family!(SAMPLE: "sample");
family!(SEATS: "seats");
family!(STREAMS: "streams");
family!(SUMMARIES: "summaries");
family!(ROPE: "rope");
family!(WINDOWED: "windowed");

/// Every family.
pub(super) static ALL: &[&Family] = &[
    &ATTENTION,
    &CHOSEN,
    &DELTA,
    &DELTA_CHANNELS,
    &DRAFT,
    &EMBED,
    &EXPERTS_FLOAT,
    &FEW,
    &HEADS,
    &INDEX,
    &MANY,
    &MANY_FLOAT,
    &NGRAMS,
    &NORM,
    &PACK,
    &PREFILL,
    &PROJECT_BOTH,
    &PROJECT_FLOAT,
    &ROUTE,
    &ROUTE_RAW,
    &SAMPLE,
    &SEATS,
    &STREAMS,
    &SUMMARIES,
    &ROPE,
    &WINDOWED,
];

#[cfg(test)]
impl Family {
    pub(super) fn texts(&self) -> [&'static str; 2] {
        [self.sm_80, self.sm_90]
    }
}

/// A kernel that takes one structure of arguments.
#[derive(Debug)]
pub(super) struct Entry<A> {
    pub(super) family: &'static Family,
    pub(super) name: &'static str,
    arguments: PhantomData<A>,
}

impl<A> Entry<A> {
    pub(super) const fn new(family: &'static Family, name: &'static str) -> Self {
        Self { family, name, arguments: PhantomData }
    }
}

impl<A> Clone for Entry<A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A> Copy for Entry<A> {}

/// What a card has loaded. Modules stay until the card's context ends.
pub(super) struct Modules {
    overlaps: bool,
    modules: Vec<OnceLock<Result<Module, String>>>,
    functions: Mutex<HashMap<&'static str, Function>>,
}

struct Module(sys::CUmodule);

/// A kernel that can be launched.
#[derive(Clone, Copy)]
pub(super) struct Function(pub(super) sys::CUfunction);

// SAFETY: a handle; the driver's functions take it from any thread.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Sync for Module {}
// SAFETY: as above.
unsafe impl Send for Function {}

/// What a kernel needs of a multiprocessor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Resources {
    pub(super) registers: u32,
    pub(super) local_bytes: u32,
}

impl Modules {
    pub(super) fn new(overlaps: bool) -> Self {
        Self { overlaps, modules: ALL.iter().map(|_| OnceLock::new()).collect(), functions: Mutex::default() }
    }

    /// Loads a family, unless it is loaded.
    pub(super) fn load(&self, device: &Device, family: &'static Family) -> Result<(), CudaError> {
        self.module(device, family).map(|_| ())
    }

    fn module(&self, device: &Device, family: &'static Family) -> Result<&Module, CudaError> {
        let failed = |log: &String| CudaError::Module { family: family.name, log: log.clone() };
        let place = ALL.iter().position(|other| other.name == family.name);
        let Some(cell) = place.and_then(|place| self.modules.get(place)) else {
            return Err(failed(&"it is not among the families".to_owned()));
        };
        device.bind()?;
        cell.get_or_init(|| load(if self.overlaps { family.sm_90 } else { family.sm_80 }))
            .as_ref()
            .map_err(failed)
    }

    /// The kernel, from its family's module.
    pub(super) fn function(
        &self,
        device: &Device,
        family: &'static Family,
        name: &'static str,
    ) -> Result<Function, CudaError> {
        let lock = || self.functions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(function) = lock().get(name) {
            return Ok(*function);
        }
        let module = self.module(device, family)?.0;
        let symbol = CString::new(name).unwrap_or_default();
        // SAFETY: the module was loaded in this context and is never unloaded.
        let function = unsafe { result::module::get_function(module, symbol) }
            .map_err(CudaError::driver("cuModuleGetFunction"))?;
        allow_all_shared_memory(device, function)?;
        lock().insert(name, Function(function));
        Ok(Function(function))
    }

    /// What the driver says about a loaded kernel.
    pub(super) fn resources(&self, function: Function) -> Result<Resources, CudaError> {
        use sys::CUfunction_attribute_enum::{
            CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, CU_FUNC_ATTRIBUTE_NUM_REGS,
        };
        let ask = |attribute| {
            // SAFETY: the function is one of a loaded module.
            let value = unsafe { result::function::get_function_attribute(function.0, attribute) };
            value.map(i32::unsigned_abs).map_err(CudaError::driver("cuFuncGetAttribute"))
        };
        Ok(Resources {
            registers: ask(CU_FUNC_ATTRIBUTE_NUM_REGS)?,
            local_bytes: ask(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
        })
    }
}

/// Beyond 48 KB a kernel has to ask once.
fn allow_all_shared_memory(device: &Device, function: sys::CUfunction) -> Result<(), CudaError> {
    let bytes = i32::try_from(device.info().shared_per_block).unwrap_or(i32::MAX);
    let attribute = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    // SAFETY: the function is one of a loaded module.
    unsafe { result::function::set_function_attribute(function, attribute, bytes) }
        .map_err(CudaError::driver("cuFuncSetAttribute"))?;
    let carveout = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
    // As much as there is for everybody: a change of the split between two kernels would keep them apart.
    // SAFETY: as above.
    unsafe { result::function::set_function_attribute(function, carveout, 100) }
        .map_err(CudaError::driver("cuFuncSetAttribute"))
}

/// The module, or why the driver refuses it.
fn load(text: &str) -> Result<Module, String> {
    const LOG: usize = 4096;
    let text = CString::new(text).unwrap_or_default();
    let mut log = vec![0_u8; LOG];
    let mut module = std::ptr::null_mut();
    let mut options = [
        sys::CUjit_option_enum::CU_JIT_ERROR_LOG_BUFFER,
        sys::CUjit_option_enum::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
    ];
    let mut values = [log.as_mut_ptr().cast::<c_void>(), LOG as *mut c_void];
    // SAFETY: the text ends with a zero, both lists have two entries, and the log has the size that they give.
    let loaded = unsafe {
        sys::cuModuleLoadDataEx(
            &raw mut module,
            text.as_ptr().cast::<c_char>().cast(),
            2,
            options.as_mut_ptr(),
            values.as_mut_ptr(),
        )
    };
    match loaded.result() {
        Ok(()) => Ok(Module(module)),
        Err(error) => {
            let end = log.iter().position(|byte| *byte == 0).unwrap_or(LOG);
            let words = String::from_utf8_lossy(&log[..end]).trim().to_owned();
            Err(format!("{} {words}", CudaError::driver("cuModuleLoadDataEx")(error)))
        }
    }
}
