//! `cargo xtask run gather-matmul`: checks some shapes on whatever there is; `--bench` measures on GPUs.
use anyhow::Context;
use gather_matmul::problem::{Blocks, Problem, Shape};
use shmem_host::{Pe, World};

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let bench = arguments.iter().any(|a| a == "--bench");
    let asked = Asked {
        grid: option(&arguments, "--blocks")?,
        movers: option(&arguments, "--movers")?,
    };
    let world = World::from_env()?;
    let simulated = world.backend_name() == "sim";
    world.run(|pe| match (bench, simulated) {
        (true, _) => measure(&pe, simulated, asked),
        (false, true) => verify(&pe, &[(128, 256, 128), (256, 512, 64)], asked),
        (false, false) => verify(
            &pe,
            &[(128, 256, 64), (384, 768, 192), (1024, 2048, 1024), (2048, 4096, 4096)],
            asked,
        ),
    })
}

/// `--name number`.
fn option(arguments: &[String], name: &str) -> anyhow::Result<Option<u32>> {
    let Some(at) = arguments.iter().position(|a| a == name) else {
        return Ok(None);
    };
    let text = arguments
        .get(at + 1)
        .with_context(|| format!("{name} takes a number"))?;
    Ok(Some(text.parse().with_context(|| format!("{name} {text}"))?))
}

/// Blocks in all and those that send, where they are not those of [`Problem::blocks`].
#[derive(Clone, Copy)]
struct Asked {
    grid: Option<u32>,
    movers: Option<u32>,
}

fn blocks(problem: &Problem<'_>, asked: Asked) -> anyhow::Result<Blocks> {
    let blocks = problem.blocks()?;
    let grid = asked.grid.unwrap_or(blocks.grid).clamp(1, blocks.grid);
    let movers = asked.movers.unwrap_or(blocks.movers).clamp(1, grid);
    Ok(Blocks { grid, movers })
}

fn verify(pe: &Pe, shapes: &[(usize, usize, usize)], asked: Asked) -> anyhow::Result<()> {
    for &(rows, n, k) in shapes {
        let problem = Problem::new(pe, Shape { rows, n, k })?;
        let blocks = blocks(&problem, asked)?;
        for round in 0..3 {
            problem.fill(round, false)?;
            pe.barrier_all()?;
            problem.gather_matmul(blocks)?;
            pe.barrier_all()?;
            problem.check(round)?;
        }
        problem.fill(3, true)?;
        problem.matmul(blocks)?;
        pe.barrier_all()?;
        problem.check(3)?;
        println!(
            "PE {}/{}: {rows} rows each, n {n}, k {k}: as the reference has it",
            pe.id(),
            pe.n()
        );
    }
    Ok(())
}

/// m, n and k of the peer's program.
const SHAPES: [(usize, usize, usize); 5] = [
    (4096, 4096, 4096),
    (8192, 8192, 8192),
    (8192, 4096, 8192),
    (8192, 1024, 8192),
    (8192, 512, 8192),
];

type Launch<'a> = &'a dyn Fn() -> Result<(), shmem_host::Error>;

/// Rows of m, n and k: all rows of A, columns of each PE's C.
fn measure(pe: &Pe, simulated: bool, asked: Asked) -> anyhow::Result<()> {
    let shapes: &[(usize, usize, usize)] = if simulated { &[(512, 256, 64)] } else { &SHAPES };
    let (launches, date) = (if simulated { 1 } else { 10 }, time::OffsetDateTime::now_utc().date());
    if pe.id() == 0 {
        println!("example,shape,ours,peer,peer_name,unit,date");
    }
    for &(m, n, k) in shapes {
        let problem = Problem::new(
            pe,
            Shape {
                rows: m / pe.n() as usize,
                n,
                k,
            },
        )?;
        let blocks = blocks(&problem, asked)?;
        problem.fill(0, true)?;
        let kinds: [(&str, Launch<'_>); 3] = [
            ("matmul", &|| problem.matmul(blocks)),
            ("gather", &|| problem.gather(blocks)),
            ("gather+matmul", &|| problem.gather_matmul(blocks)),
        ];
        // By turns: a GPU's clock falls after some 50 ms of products.
        let mut times = [const { vec![] }; 3];
        for _ in 0..if simulated { 1 } else { 7 } {
            for ((_, launch), times) in kinds.iter().zip(&mut times) {
                // The first launch is not timed: others are on their way while the clock starts.
                pe.barrier_all()?;
                launch()?;
                let took = pe.stream().timed(|| (0..launches).try_for_each(|_| launch()))?;
                times.push(took.as_secs_f64() * 1e6 / f64::from(launches));
            }
        }
        for ((kind, _), mut times) in kinds.iter().zip(times) {
            times.sort_by(f64::total_cmp);
            if pe.id() == 0 {
                println!(
                    "gather-matmul,{kind} {m}x{n}x{k},{:.1},,,us,{date}",
                    times[times.len() / 2]
                );
            }
        }
        pe.barrier_all()?;
        problem.check(0)?;
    }
    Ok(())
}
