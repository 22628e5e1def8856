//! Memory on its way to other processes: as file descriptors, or as fabric handles.

use super::driver::{Driver, out};
use super::error::CudaError;
use crate::backend::Watch;
use crate::layout::Layout;
use crate::processes::{Others, ProcessError};
use crate::{Error, wire};
use cudarc::driver::sys::{CUmemAllocationHandleType, CUmemGenericAllocationHandle};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::Arc;

/// As what memory travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Within a process.
    Nowhere,
    /// Over Unix sockets.
    Descriptor,
    /// As bytes, where the machine's fabric manager permits.
    Fabric,
}

/// Bytes of a fabric handle.
const FABRIC: usize = 64;

impl Kind {
    pub(super) fn raw(self) -> CUmemAllocationHandleType {
        match self {
            Self::Nowhere => CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
            Self::Descriptor => CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
            // CU_MEM_HANDLE_TYPE_FABRIC, since CUDA 12.3.
            Self::Fabric => CUmemAllocationHandleType(8),
        }
    }
}

/// The way between the processes of a World.
pub(super) struct Travel {
    pub(super) layout: Layout,
    pub(super) kind: Kind,
    pub(super) others: Arc<Others>,
}

/// A handle that another process has sent.
enum Sent {
    File(OwnedFd),
    Fabric([u8; FABRIC]),
}

impl Travel {
    /// Gives one handle for each PE of this process to all processes that memory reaches, and gets theirs, by PE. `mine` is None
    /// where this process has none to give; the result is None where any other one had none. All processes call it.
    pub(super) fn exchange(
        &self,
        driver: &Driver,
        mine: Option<&[CUmemGenericAllocationHandle]>,
        watch: &Watch<'_>,
    ) -> Result<Option<Vec<(u32, CUmemGenericAllocationHandle)>>, Error> {
        let handles = mine.unwrap_or_default();
        let sent = match self.kind {
            Kind::Fabric => self.fabric(driver, handles, watch)?,
            Kind::Nowhere | Kind::Descriptor => self.descriptors(driver, handles, watch)?,
        };
        let pes = |rank| self.layout.of_rank(rank);
        let theirs = || {
            (0..)
                .zip(&sent)
                .filter(|(rank, _)| pes(*rank) != self.layout.local() && self.reaches(*rank))
        };
        if !self.all_have(mine.is_some(), watch)? || theirs().any(|(rank, sent)| sent.len() != pes(rank).len()) {
            return Ok(None);
        }
        let import = |(rank, sent): (u32, &Vec<Sent>)| -> Vec<_> {
            pes(rank)
                .zip(sent)
                .map(|(pe, sent)| Ok((pe, sent.import(driver, self.kind)?)))
                .collect()
        };
        Ok(Some(theirs().flat_map(import).collect::<Result<_, CudaError>>()?))
    }

    /// Whether memory of a process travels here: descriptors stay on a machine.
    pub(super) fn reaches(&self, rank: u32) -> bool {
        self.kind == Kind::Fabric || self.layout.is_near(rank)
    }

    /// Whether every process has something to give. Those that handles reach are seen to have nothing; others are asked.
    fn all_have(&self, mine: bool, watch: &Watch<'_>) -> Result<bool, Error> {
        if (0..self.layout.processes()).all(|rank| self.reaches(rank)) {
            return Ok(true);
        }
        let told = self.others.processes.allgather(wire::encode(&mine), watch.limit);
        let told = told.map_err(|cause| ProcessError::Lost { cause })?;
        Ok(told.iter().all(|bytes| wire::decode(bytes) == Some(true)))
    }

    fn descriptors(
        &self,
        driver: &Driver,
        mine: &[CUmemGenericAllocationHandle],
        watch: &Watch<'_>,
    ) -> Result<Vec<Vec<Sent>>, Error> {
        let export = |handle: &CUmemGenericAllocationHandle| {
            let mut file = -1;
            // SAFETY: the handle is live, and was made for this kind, which is an int.
            unsafe {
                driver.cuMemExportToShareableHandle(out::<i32>(&mut file).untyped(), *handle, self.kind.raw(), 0)
            }?;
            // SAFETY: the driver has just opened it for us.
            Ok(unsafe { OwnedFd::from_raw_fd(file) })
        };
        let exported: Result<Vec<OwnedFd>, CudaError> = mine.iter().map(export).collect();
        // The others wait for something in any case.
        let files: Vec<_> = exported.iter().flatten().map(AsFd::as_fd).collect();
        let received = self.others.share(&files, watch.failed)?;
        exported?;
        Ok(received
            .into_iter()
            .map(|files| files.into_iter().map(Sent::File).collect())
            .collect())
    }

    fn fabric(
        &self,
        driver: &Driver,
        mine: &[CUmemGenericAllocationHandle],
        watch: &Watch<'_>,
    ) -> Result<Vec<Vec<Sent>>, Error> {
        let export = |handle: &CUmemGenericAllocationHandle| {
            let mut exported = [0u8; FABRIC];
            // SAFETY: the handle is live, and was made for this kind, which is 64 bytes.
            unsafe { driver.cuMemExportToShareableHandle(out(&mut exported).untyped(), *handle, self.kind.raw(), 0) }?;
            Ok(exported)
        };
        let exported: Result<Vec<_>, CudaError> = mine.iter().map(export).collect();
        // As above.
        let bytes = exported.as_deref().unwrap_or_default().concat();
        let told = self.others.processes.allgather(wire::encode(&bytes), watch.limit);
        exported?;
        let told = told.map_err(|cause| ProcessError::Lost { cause })?;
        let read = |told: &Vec<u8>| {
            let bytes: Vec<u8> = wire::decode(told).unwrap_or_default();
            bytes.as_chunks().0.iter().copied().map(Sent::Fabric).collect()
        };
        Ok(told.iter().map(read).collect())
    }
}

impl Sent {
    fn import(&self, driver: &Driver, kind: Kind) -> Result<CUmemGenericAllocationHandle, CudaError> {
        let mut handle = 0;
        let exported = match self {
            Self::File(file) => ptr::without_provenance_mut(file.as_raw_fd() as usize),
            Self::Fabric(bytes) => bytes.as_ptr().cast_mut().cast(),
        };
        // SAFETY: a descriptor by its number, or the address of 64 bytes that are only read, as the kind wants.
        unsafe { driver.cuMemImportFromShareableHandle(out(&mut handle), exported, kind.raw()) }?;
        Ok(handle)
    }
}
