// Completion of shells, made from the commands as they are.
import { EXIT, Failure } from "./outcome.mjs";

// Every command by its words, with its options and what may follow it.
function rows(command, words = []) {
  const own = command.commands.filter((one) => !one._hidden);
  const visible = command.createHelp().visibleOptions(command);
  const options = visible.map(({ long, short, description, argChoices }) => ({
    long: long ?? short, description, choices: argChoices ?? [],
  }));
  return [
    { words, commands: own.map((one) => ({ name: one.name(), description: one.description() })), options },
    ...own.flatMap((one) => rows(one, [...words, one.name()])),
  ];
}

// The branches of a shell's `case` that tell how a command goes on, of bash and zsh.
function branches(all) {
  const branch = ({ words }) => {
    const before = words.length === 1 ? ` ${words[0]}` : words.join(" ");
    return `      ${JSON.stringify(before)}) command=${JSON.stringify(words.join(" "))} ;;`;
  };
  return all.filter(({ words }) => words.length > 0).map(branch).join("\n");
}

const SHELLS = {
  bash(all, globals) {
    const cases = all.map(({ words, commands, options }) => {
      const choices = [...commands.map(({ name }) => name), ...options.map(({ long }) => long), ...globals].join(" ");
      return `    ${JSON.stringify(words.join(" "))}) words=${JSON.stringify(choices)} ;;`;
    });
    return `# Completion of tally for bash.
_tally() {
  local current=\${COMP_WORDS[COMP_CWORD]} command="" word words=""
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$command $word" in
${branches(all)}
    esac
  done
  case "$command" in
${cases.join("\n")}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  if [ "\${current#-}" = "$current" ] && [ -n "$command" ]; then COMPREPLY+=($(compgen -f -- "$current")); fi
}
complete -o filenames -F _tally tally
`;
  },
  zsh(all, globals) {
    const escaped = (text) => text.replaceAll("'", "'\\''").replaceAll(":", "\\:");
    const item = (name, description) => `'${escaped(name)}:${escaped(description)}'`;
    const cases = all.map(({ words, commands, options }) => {
      const items = [
        ...commands.map(({ name, description }) => item(name, description)),
        ...options.map(({ long, description }) => item(long, description)),
        ...globals.map((name) => `'${escaped(name)}'`),
      ];
      return `    ${JSON.stringify(words.join(" "))}) items=(${items.join(" ")}) ;;`;
    });
    return `#compdef tally
# Completion of tally for zsh.
_tally() {
  local command="" word
  local -a items
  for word in "\${(@)words[2,CURRENT-1]}"; do
    case "$command $word" in
${branches(all)}
    esac
  done
  case "$command" in
${cases.join("\n")}
  esac
  _describe 'tally' items
  if [[ -n "$command" ]]; then _files; fi
}
if [ "$funcstack[1]" = "_tally" ]; then _tally "$@"; else compdef _tally tally; fi
`;
  },
  fish(all, globals) {
    const quoted = (text) => `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
    const option = ({ long, description, choices }) => {
      const values = choices.length > 0 ? ` -xa ${quoted(choices.join(" "))}` : "";
      return `-l ${long.replace(/^--/, "")} -d ${quoted(description)}${values}`;
    };
    const lines = all.flatMap(({ words, commands, options }) => {
      const when =
        words.length === 0
          ? "__fish_use_subcommand"
          : words.map((word) => `__fish_seen_subcommand_from ${word}`).join("; and ");
      return [
        ...commands.map(({ name, description }) => `-a ${name} -d ${quoted(description)}`),
        ...(words.length === 0 ? [] : options.map(option)),
      ].map((what) => `complete -c tally -n ${quoted(when)} ${what}`);
    });
    const ofGlobals = globals.map((name) => `complete -c tally -l ${name.replace(/^--/, "")}`);
    return ["# Completion of tally for fish.", ...ofGlobals, ...lines, ""].join("\n");
  },
};

/** Returns the completion of a shell as its script. */
export function completion(program, shell) {
  const make = SHELLS[shell];
  if (make === undefined) throw new Failure(EXIT.usage, `there is no completion for ${shell}: bash, zsh or fish`);
  const globals = program.options.map(({ long }) => long);
  return make(rows(program), globals);
}
