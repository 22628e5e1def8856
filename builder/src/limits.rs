//! What ptxas and the driver refuse, as far as the declarations show it: here it becomes an error of the build, and
//! not of the first launch.

/// Static shared memory of one kernel, in bytes, on every GPU.
const MOST_SHARED: u64 = 48 << 10;

/// A kernel's parameters, in bytes. PTX from ISA 8.1 on may have more, but LLVM writes lower ones.
const MOST_PARAMETERS: u64 = 4352;

/// Everything in `ptx` that breaks a limit.
pub(crate) fn check(ptx: &str) -> Vec<String> {
    let code: String = ptx.lines().flat_map(|line| [without_comment(line), "\n"]).collect();
    let mut problems = shared(&code);
    problems.extend(entries(&code).filter_map(|(name, parameters)| {
        let bytes = parameter_space(parameters)?;
        (bytes > MOST_PARAMETERS).then(|| {
            format!(
                "the kernel `{name}` has {bytes} bytes of parameters, and {MOST_PARAMETERS} is the most: pass what is \
                 large in device memory"
            )
        })
    }));
    problems
}

fn without_comment(line: &str) -> &str {
    line.split_once("//").map_or(line, |(code, _)| code)
}

/// What is wrong with arrays in shared memory.
fn shared(code: &str) -> Vec<String> {
    let mut problems = Vec::new();
    // Those outside functions: inside one, a name is the function's own.
    let mut seen: Vec<Variable<'_>> = Vec::new();
    let mut depth = 0_u32;
    for piece in code.split_inclusive(['\n', ';', '{', '}']) {
        let statement = piece.trim_end_matches(['\n', ';', '{', '}']).trim();
        for variable in shared_variables(statement) {
            let Variable { name, bytes } = variable;
            if bytes == 0 {
                problems.push(format!("the shared array `{name}` has 0 bytes: it must hold something"));
            } else if bytes > MOST_SHARED {
                problems.push(format!(
                    "the shared array `{name}` has {bytes} bytes, and a kernel has {MOST_SHARED}: what is larger must \
                     be dynamic shared memory"
                ));
            }
            if depth > 0 {
                continue;
            }
            match seen.iter().find(|known| known.name == name) {
                Some(first) => problems.push(format!(
                    "the shared array `{name}` is defined twice, with {} bytes and with {bytes} bytes",
                    first.bytes
                )),
                None => seen.push(variable),
            }
        }
        match piece.chars().next_back() {
            Some('{') => depth += 1,
            Some('}') => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    problems
}

struct Variable<'a> {
    name: &'a str,
    bytes: u64,
}

/// `a`, 16, and `b`, 4, of `.visible .shared .align 16 .b8 a[16], b[4]`. What is `.extern` is defined elsewhere.
fn shared_variables(statement: &str) -> impl Iterator<Item = Variable<'_>> {
    let declaration = Declaration::parse(statement)
        .filter(|declaration| declaration.has(".shared") && !declaration.has(".extern") && !declaration.has(".param"));
    declaration.into_iter().flat_map(|declaration| {
        let names = declaration.names.split(',');
        names.filter_map(move |text| {
            let (name, count) = declarator(text)?;
            let bytes = declaration.element.saturating_mul(count);
            Some(Variable { name, bytes })
        })
    })
}

/// The kernels with what stands between the parentheses behind their names.
fn entries(code: &str) -> impl Iterator<Item = (&str, &str)> {
    code.match_indices(".entry ").filter_map(|(at, found)| {
        let (header, _) = code[at + found.len()..].split_once('{')?;
        let (name, rest) = header.split_once('(')?;
        let (parameters, _) = rest.split_once(')')?;
        Some((name.trim(), parameters))
    })
}

/// How many bytes the parameters take, each at a multiple of its alignment; `None` where one can't be read.
fn parameter_space(parameters: &str) -> Option<u64> {
    let mut end = 0_u64;
    for parameter in parameters.split(',').map(str::trim).filter(|text| !text.is_empty()) {
        let declaration = Declaration::parse(parameter)?;
        let (_, count) = declarator(declaration.names)?;
        end = end
            .checked_next_multiple_of(declaration.align)?
            .saturating_add(declaration.element.saturating_mul(count));
    }
    Some(end)
}

/// Directives, a type, and names.
struct Declaration<'a> {
    directives: Vec<&'a str>,
    align: u64,
    /// The size of the type.
    element: u64,
    names: &'a str,
}

impl<'a> Declaration<'a> {
    /// Of `.param .u64 .ptr .align 1 x` and `.param .align 8 .b8 x[16]`, the second alone is aligned by its `.align`:
    /// the first is a pointer to something that is.
    fn parse(statement: &'a str) -> Option<Self> {
        let (mut align, mut scalar, mut vector) = (None, None, 1);
        let mut directives = Vec::new();
        let mut rest = statement.trim_start();
        while rest.starts_with('.') {
            let word;
            (word, rest) = next_word(rest);
            if word == ".align" {
                let number;
                (number, rest) = next_word(rest);
                let number = number.parse().ok().filter(|&number| number > 0)?;
                if !directives.contains(&".ptr") {
                    align = Some(number);
                }
            }
            match word {
                ".v2" => vector = 2,
                ".v4" => vector = 4,
                _ => scalar = size_of_type(word).or(scalar),
            }
            directives.push(word);
        }
        let element = scalar? * vector;
        Some(Self {
            directives,
            align: align.unwrap_or(element),
            element,
            names: rest,
        })
    }

    fn has(&self, directive: &str) -> bool {
        self.directives.contains(&directive)
    }
}

fn next_word(text: &str) -> (&str, &str) {
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (word, rest.trim_start())
}

fn size_of_type(word: &str) -> Option<u64> {
    let bits = match word {
        ".pred" => return None,
        ".f16x2" | ".bf16x2" => 32,
        _ => {
            let number = word.trim_start_matches(['.', 'b', 's', 'u', 'f']);
            let kind = word.len() - number.len();
            // `.b8`, `.bf16`, but not `.1`.
            number.parse().ok().filter(|_| (2..=3).contains(&kind))?
        }
    };
    matches!(bits, 8 | 16 | 32 | 64 | 128).then_some(bits / 8)
}

/// `p` and 15 of `p[3][5]`; no number between brackets counts as 0.
fn declarator(text: &str) -> Option<(&str, u64)> {
    let text = text.trim();
    let (name, mut rest) = text.split_at(text.find('[').unwrap_or(text.len()));
    let mut count = 1_u64;
    while let Some(dimension) = rest.trim_start().strip_prefix('[') {
        let number;
        (number, rest) = dimension.split_once(']')?;
        let number = number.trim();
        count = count.saturating_mul(if number.is_empty() { 0 } else { number.parse().ok()? });
    }
    let name = name.trim();
    (!name.is_empty()).then_some((name, count))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FINE: &str = "\
.version 7.8
.target sm_90
.address_size 64
.extern .shared .align 16 .b8 shmem_dynamic[];
.extern .shared .align 16 .b8 shmem_dynamic[];
.shared .align 16 .b8 shmem_scratch[16];
// .shared .align 16 .b8 shmem_scratch[16];
.visible .shared .align 4 .f32 all[12288];
.visible .const .align 8 .b8 SHMEM_STATE[8248];
.global .align 1 .b8 bytes[60000] = {1, 2};
.visible .entry k(
	.param .u64 .ptr .shared .align 4352 k_param_0,	// 4352
	.param .align 8 .b8 k_param_1[4340],
	.param .u32 k_param_2
)
{
	.shared .align 4 .b8 own[4];
	.reg .b32 	%r<2>;
	{ // callseq 0, 0
	.param .b64 param0;
	ld.shared.u32 %r1, [own];
	}
	ret;
}
.visible .entry nop() { .shared .align 4 .b8 own[4]; ret; }
.shared .b8 last[49152];
";

    #[test]
    fn what_ptxas_takes_passes() {
        assert_eq!(check(FINE), [] as [&str; 0]);
    }

    fn problem(ptx: &str) -> String {
        let problems = check(&format!("{FINE}{ptx}"));
        assert_eq!(problems.len(), 1, "{ptx}: {problems:?}");
        problems.into_iter().next().unwrap()
    }

    #[test]
    fn shared_arrays_that_hold_nothing_or_too_much() {
        for empty in [
            ".shared .align 16 .b8 a$x[0];",
            ".visible .shared .b32 a$x[];",
            "\t.shared .b32 a$x[4][0];",
            ".func f() { .shared .align 4 .b8 a$x[0]; }",
        ] {
            assert!(problem(empty).contains("`a$x` has 0 bytes"), "{empty}");
        }
        for (large, bytes) in [
            (".shared .align 16 .b8 big[49153];", "49153"),
            (".shared .align 4 .b32 big[3][5000];", "60000"),
            (".shared .v4 .f32 small[2], big[3073];", "49168"),
            (".weak .shared .b64 big[18446744073709551615];", "18446744073709551615"),
            (".entry e()\n{\n\t.shared .align 4 .b8 big[50000];\n}", "50000"),
        ] {
            let problem = problem(large);
            assert!(
                problem.contains(&format!("`big` has {bytes} bytes, and a kernel has 49152")),
                "{problem}"
            );
        }
    }

    #[test]
    fn shared_arrays_that_are_defined_twice() {
        let twice = problem(".shared .align 16 .b8 shmem_scratch[32];");
        assert!(
            twice.contains("`shmem_scratch` is defined twice, with 16 bytes and with 32 bytes"),
            "{twice}"
        );
        let one_line = ".shared .b8 a[1]; .shared .b8 a[1];";
        assert!(problem(one_line).contains("`a` is defined twice"));
    }

    #[test]
    fn kernels_with_too_many_parameters() {
        for (parameters, bytes) in [
            (".param .align 4 .b8 p[4356]", "4356"),
            (".param .align 4 .b8 p[4350],\n\t.param .b64 q", "4360"),
            (
                ".param .u8 p,\n\t.param .u64 .ptr .align 1 q,\n\t.param .align 16 .b8 r[4352]",
                "4368",
            ),
        ] {
            let problem = problem(&format!(".visible .entry many$(\n\t{parameters}\n)\n{{\n\tret;\n}}\n"));
            assert!(
                problem.contains(&format!(
                    "`many$` has {bytes} bytes of parameters, and 4352 is the most"
                )),
                "{problem}"
            );
        }
        // Only kernels have that limit.
        assert_eq!(check(".func f(.param .align 4 .b8 p[5000])\n{\n}\n"), [] as [&str; 0]);
    }

    #[test]
    fn all_problems_are_told() {
        let problems = check(".shared .b8 a[0];\n.shared .b8 b[0];\n.entry k(.param .b8 p[9999]) {}");
        assert_eq!(problems.len(), 3, "{problems:?}");
    }
}
