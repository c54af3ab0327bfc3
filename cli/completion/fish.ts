/** Completion for fish, which reads what may come next, and what it is, a line each. */
import { type Askable, type Kind, type Place, type Word, commonWays, waysByKind } from './words.ts';

function quoted(text: string): string {
  return `'${text.replaceAll(/[\\']/g, String.raw`\$&`)}'`;
}

function kindCases(ways: ReadonlyMap<Kind, readonly string[]>): string {
  return Array.from(ways, ([kind, all]) => `    case ${all.map(quoted).join(' ')}\n      echo ${quoted(kind)}`).join(
    '\n',
  );
}

function told(words: readonly Word[]): string {
  if (words.length === 0) return 'true';
  return `printf '%s\\t%s\\n' ${words.map(({ word, summary }) => `${word} ${quoted(summary)}`).join(' ')}`;
}

function listing(name: string, places: readonly Place[], wordsOf: (place: Place) => readonly Word[]): string {
  const cases = places.map((place) => `    case ${quoted(place.chain)}\n      ${told(wordsOf(place))}`);
  return `function ${name}\n  switch "$argv[1]"\n${cases.join('\n')}\n  end\nend`;
}

/** `__flynn_look` leaves what it read: the command, its arguments so far, what the word at the cursor is. */
function lookOf(places: readonly Place[]): string {
  const aliases = places.flatMap(({ chain, aliases: names }) => {
    const above = chain.split(' ').slice(0, -1);
    return names.map(
      (name) => `        case ${quoted([...above, name].join(' '))}\n          set next ${quoted(chain)}`,
    );
  });
  const known = places.flatMap(({ chain }) => (chain === '' ? [] : [quoted(chain)]));
  const passing = places.filter(({ arguments: args }) => args.some(({ kind }) => kind === 'else'));
  return `function __flynn_look
  set -g __flynn_chain ''
  set -g __flynn_cluster
  set -g __flynn_count 0
  set -g __flynn_rest ''
  set -g __flynn_want ''
  set -l words (commandline -opc)
  for word in $words[2..-1]
    if test "$__flynn_want" = app; and string match -q -- '-*' $word
      set -g __flynn_want ''
    else if test -n "$__flynn_want"
      test "$__flynn_want" = cluster; and set -g __flynn_cluster $word
      set -g __flynn_want ''
      continue
    end
    if test -z "$__flynn_rest"
      switch "$word"
        case --
          set -g __flynn_rest yes
          continue
        case '--cluster=*'
          set -g __flynn_cluster (string replace -r '^[^=]*=' '' -- $word)
          continue
        case '--*=*'
          continue
        case '-*'
          set -g __flynn_want (__flynn_value $__flynn_chain $word)
          continue
      end
    end
    if test $__flynn_count -eq 0
      set -l next (string trim "$__flynn_chain $word")
      switch "$next"
${aliases.join('\n')}
      end
      switch "$next"
        case ${known.join(' ')}
          set -g __flynn_chain $next
          continue
      end
    end
    set -g __flynn_count (math $__flynn_count + 1)
    switch "$__flynn_chain"
      case ${passing.map(({ chain }) => quoted(chain)).join(' ')}
        set -g __flynn_rest yes
        break
    end
  end
end`;
}

function namesOf(what: Askable): string {
  return `flynn --cluster=$__flynn_cluster completion ${what} 2>/dev/null`;
}

export function fish(places: readonly Place[]): string {
  const ways = waysByKind(places);
  const common = Array.from(commonWays, ([way, kind]) => `    case ${quoted(`*|${way}`)}\n      echo ${kind}`);
  return `function __flynn_value
  switch "$argv[1]|$argv[2]"
${common.join('\n')}
${kindCases(ways.values)}
  end
end
function __flynn_argument
  switch "$argv[1]:$argv[2]"
${kindCases(ways.arguments)}
    case '*'
      echo text
  end
end
${listing('__flynn_subcommands', places, ({ subcommands }) => subcommands)}
${listing('__flynn_options', places, ({ options }) => options)}
${lookOf(places)}
function __flynn_kind
  set -l current (commandline -ct)
  if test -n "$__flynn_want"
    echo $__flynn_want
  else if test -z "$__flynn_rest"; and string match -q -- '--*=*' $current
    __flynn_value $__flynn_chain (string replace -r '=.*' '' -- $current)
  else if test -z "$__flynn_rest"; and string match -q -- '-*' $current
    echo option
  else
    __flynn_argument $__flynn_chain $__flynn_count
  end
end
function __flynn_is_file
  __flynn_look
  contains -- (__flynn_kind) file else
end
function __flynn_offer
  __flynn_look
  set -l current (commandline -ct)
  set -l kind (__flynn_kind)
  set -l before
  string match -q -- '--*=*' $current; and set before (string replace -r '=.*' '=' -- $current)
  switch "$kind"
    case option
      test -z "$__flynn_chain" -a $__flynn_count -gt 0; or __flynn_options $__flynn_chain
      return
    case app
      string replace -r -- '^' "$before" (${namesOf('apps')})
    case cluster
      string replace -r -- '^' "$before" (${namesOf('clusters')})
    case '=*'
      string replace -r -- '^' "$before" (string split ' ' -- (string sub -s 2 -- $kind))
  end
  test -z "$__flynn_want$__flynn_rest$before"; and test $__flynn_count -eq 0; or return
  set -l subs (__flynn_subcommands $__flynn_chain)
  if set -q subs[1]
    printf '%s\\n' $subs
  else if test -z "$current"; and test "$kind" = text
    __flynn_options $__flynn_chain
  end
end
complete -c flynn -e
complete -c flynn -f -n 'not __flynn_is_file' -a '(__flynn_offer)'
complete -c flynn -F -n __flynn_is_file`;
}
