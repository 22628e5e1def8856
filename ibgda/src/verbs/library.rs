//! libibverbs and libmlx5, loaded at run time.

use super::sys;
use crate::error::IbgdaError;
use libloading::Library;
use std::ffi::OsStr;

macro_rules! table { ($($library:ident { $($name:ident)* } optional { $($maybe:ident)* })*) => {
    /// The functions that are used.
    #[derive(Debug)]
    pub(super) struct Functions {
        $($(pub(super) $name: sys::$name,)* $(pub(super) $maybe: Option<sys::$maybe>,)*)*
    }

    impl Functions {
        fn find($($library: &'static Library),*) -> Result<Self, IbgdaError> {
            Ok(Self {
                $(
                    $($name: {
                        // SAFETY: the type is that of the headers' function of this name.
                        let found = unsafe { $library.get::<sys::$name>(concat!(stringify!($name), "\0").as_bytes()) };
                        *found.map_err(|_| IbgdaError::Function {
                            library: $library::NAME,
                            function: stringify!($name),
                        })?
                    },)*
                    $($maybe: {
                        // SAFETY: as above.
                        let found = unsafe { $library.get::<sys::$maybe>(concat!(stringify!($maybe), "\0").as_bytes()) };
                        found.ok().map(|f| *f)
                    },)*
                )*
            })
        }
    }
} }
table! {
    ibverbs {
        ibv_get_device_list ibv_free_device_list ibv_get_device_name ibv_open_device ibv_close_device
        ibv_query_port _ibv_query_gid_table ibv_alloc_pd ibv_dealloc_pd ibv_reg_mr_iova2 ibv_dereg_mr
        ibv_create_ah ibv_destroy_ah
    } optional { ibv_reg_dmabuf_mr }
    mlx5 {
        mlx5dv_is_supported mlx5dv_open_device mlx5dv_init_obj
        mlx5dv_devx_obj_create mlx5dv_devx_obj_modify mlx5dv_devx_obj_destroy mlx5dv_devx_general_cmd
        mlx5dv_devx_umem_reg mlx5dv_devx_umem_dereg mlx5dv_devx_alloc_uar mlx5dv_devx_free_uar mlx5dv_devx_query_eqn
    } optional { mlx5dv_devx_umem_reg_ex }
}

mod ibverbs {
    pub(super) const NAME: &str = "libibverbs.so.1";
}

mod mlx5 {
    pub(super) const NAME: &str = "libmlx5.so.1";
}

impl Functions {
    /// Loads the libraries: those of that name, or elsewhere.
    pub(super) fn load(verbs: Option<&OsStr>, provider: Option<&OsStr>) -> Result<Self, IbgdaError> {
        Self::find(
            open(ibverbs::NAME, verbs)?,
            // The provider that libibverbs loads by itself is the same library.
            open(mlx5::NAME, provider)?,
        )
    }
}

fn open(name: &'static str, path: Option<&OsStr>) -> Result<&'static Library, IbgdaError> {
    // SAFETY: their initialisers have no conditions.
    let library = unsafe { Library::new(path.unwrap_or(OsStr::new(name))) };
    let library = library.map_err(|e| IbgdaError::Library {
        library: name,
        cause: e.to_string(),
    })?;
    // libibverbs keeps what its providers registered: it is never unloaded.
    Ok(Box::leak(Box::new(library)))
}
