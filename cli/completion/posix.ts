/** Completion for bash and zsh: one way to read the words before the cursor, and what each does with what that found. */
import { type Askable, type Kind, type Place, type Word, commonWays, waysByKind } from './words.ts';

/** As one word of a shell. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

function pattern(way: string): string {
  return way.endsWith(':*') ? `"${way.slice(0, -1)}"*` : `"${way}"`;
}

function kindCases(ways: ReadonlyMap<Kind, readonly string[]>, variable: string): string {
  return Array.from(ways, ([kind, all]) => `    ${all.map(pattern).join('|')}) ${variable}="${kind}" ;;`).join('\n');
}

/** Answers what an option's value is, in `want`. */
function wantOf(places: readonly Place[]): string {
  const common = Array.from(commonWays, ([way, kind]) => `    *"|${way}") want="${kind}" ;;`).join('\n');
  return `${common}\n${kindCases(waysByKind(places).values, 'want')}`;
}

function chainCases(places: readonly Place[]): string {
  const aliases = places.flatMap(({ chain, aliases: names }) => {
    const above = chain.split(' ').slice(0, -1);
    return names.map((name) => `      "${[...above, name].join(' ')}") chain="${chain}"; continue ;;`);
  });
  const known = places.flatMap(({ chain }) => (chain === '' ? [] : [`"${chain}"`]));
  return [...aliases, `      ${known.join('|')}) chain="\${chain:+$chain }$word"; continue ;;`].join('\n');
}

/**
 * Reads the words in `list` and leaves: `chain`, the command; `count`, its arguments so far; `want`, what the word at the cursor is
 * if it is an option's value; `rest` once no option follows any more; `cluster`, if one is named.
 */
function walkOf(places: readonly Place[], list: string): string {
  const passing = places.filter(({ arguments: args }) => args.some(({ kind }) => kind === 'else'));
  return `  for word in ${list}; do
    case "$word" in "=") continue ;; esac
    case "$want:$word" in
      :*) ;;
      app:-*) want="" ;;
      cluster:*) cluster="$word"; want=""; continue ;;
      *) want=""; continue ;;
    esac
    case "$rest:$word" in
      :--) rest=yes; continue ;;
      :--cluster=*) cluster="\${word#*=}"; continue ;;
      :--*=*) continue ;;
      :-*)
        case "$chain|$word" in
${wantOf(places).replaceAll(/^/gm, '      ')}
        esac
        continue ;;
    esac
    case "$count:\${chain:+$chain }$word" in
${chainCases(places).replaceAll(/(^ +|\|)"/gm, '$1"0:')}
    esac
    count="$((count+1))"
    case "$chain" in ${passing.map(({ chain }) => `"${chain}"`).join('|')}) rest=yes; break ;; esac
  done`;
}

const locals = 'local chain="" cluster="" count=0 kind="text" rest="" want="" word=""';

/** What is at the cursor, in `kind`: an option's value, else an argument. */
function kindOf(places: readonly Place[]): string {
  return `  case "$chain:$count" in
${kindCases(waysByKind(places).arguments, 'kind')}
  esac
  case "$want" in ?*) kind="$want" ;; esac`;
}

function namesOf(what: Askable): string {
  return `$(flynn \${cluster:+"--cluster=$cluster"} completion ${what} 2>/dev/null)`;
}

function plain(words: readonly Word[]): string {
  return words.map(({ word }) => word).join(' ');
}

export function bash(places: readonly Place[]): string {
  const cases = places.map(({ chain, subcommands, options }) => {
    return `    "${chain}") subs="${plain(subcommands)}" opts="${plain(options)}" ;;`;
  });
  return `_flynn() {
  local current="\${COMP_WORDS[COMP_CWORD]}" subs="" opts="" found=""
  ${locals}
  case "$current" in "=") current="" ;; esac
${walkOf(places, '"${COMP_WORDS[@]:1:COMP_CWORD-1}"')}
${kindOf(places)}
  case "$chain" in
${cases.join('\n')}
  esac
  case "$chain:$count" in :0) ;; :*) opts="" ;; esac
  COMPREPLY=()
  case "$want:$rest:$current" in
    app:*|cluster:*) ;;
    ::-*) COMPREPLY=($(compgen -W "$opts" -- "$current")); return ;;
  esac
  case "$kind" in
    file|else) return ;;
    app) found="${namesOf('apps')}" ;;
    cluster) found="${namesOf('clusters')}" ;;
    "="*) found="\${kind#=}" ;;
  esac
  case "$want$rest:$count" in ":0") found="$found $subs" ;; esac
  case "$want$rest$current\${found// /}:$count" in ":0") found="$opts" ;; esac
  # Where no file is meant none is offered.
  compopt +o default 2>/dev/null
  COMPREPLY=($(compgen -W "$found" -- "$current"))
}
complete -o default -F _flynn flynn`;
}

function described(words: readonly Word[]): string {
  return words.map(({ word, summary }) => quoted(`${word}:${summary}`)).join(' ');
}

export function zsh(places: readonly Place[]): string {
  const cases = places.map(({ chain, subcommands, options }) => {
    return `    "${chain}") subs=(${described(subcommands)}) opts=(${described(options)}) ;;`;
  });
  return `(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
_flynn_complete() {
  local -a subs opts found
  ${locals}
  local current="\${words[CURRENT]}"
${walkOf(places, '"${(@)words[2,CURRENT-1]}"')}
  case "$want:$rest:$current" in
    ::--*=*)
      word="\${current%%=*}"
      compset -P '*='
      case "$chain|$word" in
${wantOf(places).replaceAll(/^/gm, '  ')}
      esac
      current="\${current#*=}" ;;
  esac
${kindOf(places)}
  case "$chain" in
${cases.join('\n')}
  esac
  case "$chain:$count" in :0) ;; :*) opts=() ;; esac
  case "$want:$rest:$current" in
    ::-*) _describe -o option opts; return ;;
  esac
  case "$kind" in
    file|else) _files; return ;;
    app) found=(\${(f)"${namesOf('apps')}"}); compadd -a found ;;
    cluster) found=(\${(f)"${namesOf('clusters')}"}); compadd -a found ;;
    "="*) compadd -- \${=kind#=} ;;
  esac
  case "$want$rest:$count" in ":0") _describe command subs ;; esac
}
compdef _flynn_complete flynn`;
}
