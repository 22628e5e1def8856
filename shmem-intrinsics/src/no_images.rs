::shmem::Images {
    id: 0,
    list: &[],
    absent: "kernels of this crate's doctests run on the simulator only",
    broken: "",
}
