//! Writes random kernels: what is hard on an optimiser is a value that decides a branch before a convergent call and
//! another after it, so the names of such values live on across the calls.

use super::random::Random;
use super::{Call, Kernel, Site};

/// PTX has 16 barriers, and `Block.sync()` takes number 0.
const BARRIERS: u32 = 15;
/// A warp's lanes, without lane 0.
const LANES: u32 = 31;
/// Blocks in blocks.
const DEPTH: u32 = 3;

/// What the calls are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The intrinsics that `shmem` calls.
    Shmem,
    /// `asm!`, which the compiler may duplicate.
    Bare,
}

/// `n` kernels called `<prefix>0`, `<prefix>1`, ..
#[must_use]
pub fn kernels(seed: u64, n: usize, prefix: &str, form: Form) -> Vec<Kernel> {
    let mut random = Random::new(seed);
    (0..n)
        .map(|i| kernel(&mut random, format!("{prefix}{i}"), form))
        .collect()
}

fn kernel(random: &mut Random, name: String, form: Form) -> Kernel {
    let mut writer = Writer {
        random,
        form,
        names: 0,
        open: 0,
        returned: false,
        known: Known::default(),
        sites: vec![],
    };
    writer.known.numbers = ["x", "y", "t"].map(String::from).to_vec();
    let body = [writer.block(DEPTH, false), writer.block(DEPTH, false)].join("\n");
    let source =
        format!("#[kernel]\npub fn {name}(o: Global<u32>, x: u32, y: u32) {{\nlet t = thread::index();\n{body}\n}}\n");
    Kernel {
        name,
        source,
        sites: writer.sites,
    }
}

struct Writer<'a> {
    random: &'a mut Random,
    form: Form,
    /// How many were given out.
    names: u32,
    /// How many blocks are open.
    open: u32,
    /// Whether some thread may have returned already.
    returned: bool,
    known: Known,
    sites: Vec<Site>,
}

/// The variables in scope.
#[derive(Clone, Default)]
struct Known {
    numbers: Vec<String>,
    flags: Vec<String>,
    options: Vec<String>,
}

impl Writer<'_> {
    /// The statement's kind is a number below 100, so that the ranges are percentages. A kind that isn't possible here
    /// falls through to a later one.
    fn statement(&mut self, depth: u32, in_loop: bool) -> String {
        match self.random.below(100) {
            0..22 if self.barriers() < BARRIERS => self.barrier(),
            0..30 if self.shuffles() < LANES => self.shuffle(),
            0..38 => {
                let (name, condition) = (self.name("b"), self.condition());
                self.known.flags.push(name.clone());
                format!("let {name} = {condition};")
            }
            38..46 => {
                let (name, condition, value) = (self.name("p"), self.condition(), self.number());
                self.known.options.push(name.clone());
                format!("let {name} = if {condition} {{ Some({value}) }} else {{ None }};")
            }
            46..52 => {
                let (name, start, condition, value) =
                    (self.name("m"), self.random.coin(), self.condition(), self.number());
                self.known.flags.push(name.clone());
                format!(
                    "let mut {name} = {start};\nif {condition} {{\n{name} = !{name};\no.store(t, {value});\n}}\nlet {name} = {name};"
                )
            }
            52..60 => format!("o.store({}, {});", self.number(), self.number()),
            _ if depth == 0 => format!("o.store({}, {});", self.random.below(100), self.number()),
            60..78 => {
                let (condition, then) = (self.condition(), self.scope(depth, in_loop));
                let other = if self.random.coin() {
                    format!(" else {}", self.scope(depth, in_loop))
                } else {
                    String::new()
                };
                format!("if {condition} {then}{other}")
            }
            78..83 if !self.known.options.is_empty() => {
                let (name, option) = (self.name("q"), self.one_of(|known| &known.options));
                let then = self.scope_with(&name, depth, in_loop);
                format!("if let Some({name}) = {option} {then}")
            }
            78..88 => {
                let value = self.number();
                let arms: Vec<_> = (0..3).map(|_| self.scope(depth, in_loop)).collect();
                format!(
                    "match {value} % 3 {{\n0 => {}\n1 => {}\n_ => {}\n}}",
                    arms[0], arms[1], arms[2]
                )
            }
            88..95 => {
                let (name, end) = (self.name("i"), self.random.pick(&["x", "y", "o.load(t)"]));
                let body = self.scope_with(&name, depth, true);
                format!("for {name} in 0..{end} {body}")
            }
            _ if in_loop && self.random.coin() => {
                let leave = self.random.pick(&["break", "continue"]);
                format!("if {} {{ {leave} }}", self.condition())
            }
            _ => {
                self.returned = true;
                format!("if {} {{ return }}", self.condition())
            }
        }
    }

    fn barrier(&mut self) -> String {
        let number = self.barriers() + 1;
        self.site(Call::Barrier(number));
        match self.form {
            Form::Shmem => format!("sync_id::<{number}>();"),
            Form::Bare => format!("bare_sync_id::<{number}>();"),
        }
    }

    fn shuffle(&mut self) -> String {
        let (lane, value, name) = (self.shuffles() + 1, self.number(), self.name("v"));
        self.site(Call::Shuffle(lane));
        self.known.numbers.push(name.clone());
        match self.form {
            Form::Shmem => format!("let {name} = warp::shuffle({value}, {lane});"),
            Form::Bare => format!("let {name} = bare_shuffle::<{lane}>({value});"),
        }
    }

    fn site(&mut self, call: Call) {
        self.sites.push(Site {
            call,
            always: self.open == 0 && !self.returned,
        });
    }

    fn barriers(&self) -> u32 {
        self.sites
            .iter()
            .filter(|site| matches!(site.call, Call::Barrier(_)))
            .count() as u32
    }

    fn shuffles(&self) -> u32 {
        self.sites.len() as u32 - self.barriers()
    }

    /// Statements; what they declare is known to them only.
    fn block(&mut self, depth: u32, in_loop: bool) -> String {
        let outer = self.known.clone();
        let statements: Vec<_> = (0..2 + self.random.below(4))
            .map(|_| self.statement(depth, in_loop))
            .collect();
        self.known = outer;
        statements.join("\n")
    }

    fn scope(&mut self, depth: u32, in_loop: bool) -> String {
        self.open += 1;
        let block = self.block(depth - 1, in_loop);
        self.open -= 1;
        format!("{{\n{block}\n}}")
    }

    fn scope_with(&mut self, number: &str, depth: u32, in_loop: bool) -> String {
        self.known.numbers.push(number.into());
        let scope = self.scope(depth, in_loop);
        self.known.numbers.pop();
        scope
    }

    fn number(&mut self) -> String {
        match self.random.below(10) {
            0..5 => self.one_of(|known| &known.numbers),
            5..8 => format!(
                "o.load({}.wrapping_add({}))",
                self.one_of(|known| &known.numbers),
                self.random.below(100)
            ),
            _ => {
                let (a, b) = (self.one_of(|known| &known.numbers), self.one_of(|known| &known.numbers));
                format!("{a}.wrapping_mul({b} ^ {})", 1 + self.random.below(9))
            }
        }
    }

    fn condition(&mut self) -> String {
        match self.random.below(100) {
            0..50 if !self.known.flags.is_empty() => {
                format!("{}{}", self.random.pick(&["", "!"]), self.one_of(|known| &known.flags))
            }
            0..65 if !self.known.options.is_empty() => {
                format!(
                    "{}{}",
                    self.one_of(|known| &known.options),
                    self.random.pick(&[".is_some()", ".is_none()"])
                )
            }
            // In parentheses, because `a < b` and what follows may read as generic arguments.
            0..80 => format!(
                "({} {} {})",
                self.number(),
                self.random.pick(&["<", ">", "==", "!="]),
                self.number()
            ),
            _ => format!(
                "({} {} {})",
                self.condition(),
                self.random.pick(&["&&", "||"]),
                self.condition()
            ),
        }
    }

    fn name(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    fn one_of(&mut self, names: impl Fn(&Known) -> &Vec<String>) -> String {
        let names = names(&self.known);
        names[self.random.below(names.len())].clone()
    }
}
