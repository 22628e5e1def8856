::shmem::Images {
    id: 0,
    list: &[],
    absent: "kernels of this crate's own tests run on the simulator only",
    broken: "",
}
