import type { Command } from 'commander';
import { usageError } from '../arguments.ts';
import { addCommand, type Parent } from './command.ts';

const shells = ['bash', 'zsh', 'fish'] as const;

export function addCompletionCommand(parent: Parent): void {
  addCommand(parent, {
    name: 'completion',
    summary: 'completion for a shell: eval "$(flynn completion bash)"',
    arguments: [['<shell>', shells.join(', ')]],
    async run(context, _options, [shell = '']) {
      const words = wordsOf(parent.program);
      switch (shell) {
        case 'bash':
          return context.print(bash(words));
        case 'zsh':
          return context.print(zsh(words));
        case 'fish':
          return context.print(fish(words));
        default:
          throw usageError(`no completion for "${shell}": there is ${shells.join(', ')}`);
      }
    },
  });
}

type Words = readonly { chain: string; words: readonly string[] }[];

/** What may follow each command: its subcommands and long options. */
function wordsOf(command: Command, chain: readonly string[] = []): Words {
  const names = command.commands.map((one) => one.name());
  const options = command.options.flatMap((option) => (option.long ? [option.long] : []));
  return [
    { chain: chain.join(' '), words: [...names, ...options, '--help'] },
    ...command.commands.flatMap((one) => wordsOf(one, [...chain, one.name()])),
  ];
}

const appNames = `flynn apps --all 2>/dev/null | awk 'NR > 1 { print $1 }'`;

function casesOf(words: Words): string {
  return words.map(({ chain, words: next }) => `    "${chain}") words="${next.join(' ')}" ;;`).join('\n');
}

/**
 * The chain ends at the first word that is no subcommand there: that is an argument, or an option's value, and what comes after it
 * is too; options alone may follow then. The common options may stand before it. Where a shell splits at "=", that is a word.
 */
function chainLoop(words: Words, list: string): string {
  return `  for word in ${list}; do
    case "$word" in "=") continue ;; esac
    case "$before" in -a|--app|-c|--cluster) before=""; continue ;; esac
    before="$word"
    case "$word" in -*) continue ;; esac
    case "|${words.map(({ chain }) => chain).join('|')}|" in
      *"|\${chain:+$chain }$word|"*) chain="\${chain:+$chain }$word" ;;
      *) rest=yes; break ;;
    esac
  done`;
}

function bash(words: Words): string {
  return `_flynn() {
  local current="\${COMP_WORDS[COMP_CWORD]}" at="$((COMP_CWORD-1))" before="" chain="" rest="" word words=""
  case "$current" in "=") current="" ;; *) case "\${COMP_WORDS[at]}" in "=") at="$((at-1))" ;; esac ;; esac
  case "\${COMP_WORDS[at]}" in
    -a|--app) COMPREPLY=($(compgen -W "$(${appNames})" -- "$current")); return ;;
  esac
${chainLoop(words, '"${COMP_WORDS[@]:1:COMP_CWORD-1}"')}
  case "$chain" in
${casesOf(words)}
  esac
  case "$rest:$chain:$current" in yes:?*:-*) ;; yes:*) words="" ;; esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _flynn flynn`;
}

function zsh(words: Words): string {
  return `(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
_flynn_complete() {
  local before="" chain="" rest="" word="" found=""
  case "\${words[CURRENT-1]}" in
    -a|--app) compadd -- \${(f)"$(${appNames})"}; return ;;
  esac
${chainLoop(words, '"${(@)words[2,CURRENT-1]}"')}
  case "$chain" in
${casesOf(words).replaceAll(' words=', ' found=')}
  esac
  case "$rest:$chain:\${words[CURRENT]}" in yes:?*:-*) ;; yes:*) found="" ;; esac
  case "$found" in "") _files; return ;; esac
  compadd -- \${=found}
}
compdef _flynn_complete flynn`;
}

function fish(words: Words): string {
  const top = words.find(({ chain }) => chain === '')?.words.filter((word) => !word.startsWith('-')) ?? [];
  const lines = [`complete -c flynn -f -n __fish_use_subcommand -a "${top.join(' ')}"`];
  for (const { chain, words: next } of words) {
    if (chain === '' || chain.includes(' ')) continue;
    const subcommands = next.filter((word) => !word.startsWith('-'));
    const seen = `-n "__fish_seen_subcommand_from ${chain}"`;
    if (subcommands.length > 0) lines.push(`complete -c flynn -f ${seen} -a "${subcommands.join(' ')}"`);
    for (const option of next.filter((word) => word.startsWith('--') && word !== '--app')) {
      lines.push(`complete -c flynn ${seen} -l ${option.slice(2)}`);
    }
  }
  lines.push(`complete -c flynn -s a -l app -x -a "(${appNames.replace('$1', String.raw`\$1`)})"`);
  return lines.join('\n');
}
