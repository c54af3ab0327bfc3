/** Text with a terminal's escape sequences as spans with classes. Pure: colours become class names out of a table, nothing else. */
export type Span = Readonly<{ text: string; classes: string }>;

type Style = Readonly<{
  colour?: string;
  background?: string;
  isBold: boolean;
  isDim: boolean;
  isItalic: boolean;
  isUnderlined: boolean;
}>;

const plain: Style = { isBold: false, isDim: false, isItalic: false, isUnderlined: false };

const names = ['black', 'red', 'green', 'yellow', 'blue', 'magenta', 'cyan', 'white'] as const;

/** CSI … letter; OSC … BEL or ST; any other escape of two characters. */
const sequence = /\x1b\[([0-9;:?]*)([A-Za-z])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b./g;

/** What is no text and no colour (moves of the cursor, titles, links) is left out; of overwritten lines the last is shown. */
export function spansOf(line: string): Span[] {
  const text = line.replace(/\r$/, '');
  const shown = text.slice(text.lastIndexOf('\r') + 1);
  const spans: Span[] = [];
  let style = plain;
  let from = 0;
  const add = (to: number) => {
    const part = shown.slice(from, to).replaceAll(/[\x00-\x08\x0b-\x1f\x7f]/g, '');
    if (part !== '') spans.push({ text: part, classes: classesOf(style) });
  };
  for (const match of shown.matchAll(sequence)) {
    add(match.index);
    from = match.index + match[0].length;
    if (match[2] === 'm') style = restyled(style, (match[1] ?? '').split(/[;:]/).map(Number));
  }
  add(shown.length);
  return spans;
}

function restyled(style: Style, codes: readonly number[]): Style {
  let next = style;
  for (let at = 0; at < codes.length; at += 1) {
    const code = codes[at] ?? 0;
    if (code === 0) next = plain;
    else if (code === 1) next = { ...next, isBold: true };
    else if (code === 2) next = { ...next, isDim: true };
    else if (code === 3) next = { ...next, isItalic: true };
    else if (code === 4) next = { ...next, isUnderlined: true };
    else if (code === 22) next = { ...next, isBold: false, isDim: false };
    else if (code === 23) next = { ...next, isItalic: false };
    else if (code === 24) next = { ...next, isUnderlined: false };
    else if (code === 38 || code === 48) {
      // 256 colours and true ones: the eight that there are classes for, else as it is.
      const isIndexed = codes[at + 1] === 5;
      const name = isIndexed ? names[((codes[at + 2] ?? 8) % 16) % 8] : undefined;
      if (isIndexed && (codes[at + 2] ?? 16) < 16) next = coloured(next, code === 38, name);
      at += isIndexed ? 2 : 4;
    } else if (code === 39) next = coloured(next, true, undefined);
    else if (code === 49) next = coloured(next, false, undefined);
    else if (code >= 30 && code <= 37) next = coloured(next, true, names[code - 30]);
    else if (code >= 90 && code <= 97) next = coloured(next, true, names[code - 90]);
    else if (code >= 40 && code <= 47) next = coloured(next, false, names[code - 40]);
    else if (code >= 100 && code <= 107) next = coloured(next, false, names[code - 100]);
  }
  return next;
}

function coloured({ colour, background, ...rest }: Style, isFront: boolean, name: string | undefined): Style {
  const front = isFront ? name : colour;
  const back = isFront ? background : name;
  return {
    ...rest,
    ...(front === undefined ? {} : { colour: front }),
    ...(back === undefined ? {} : { background: back }),
  };
}

function classesOf({ colour, background, isBold, isDim, isItalic, isUnderlined }: Style): string {
  return [
    colour === undefined ? '' : `ansi-${colour}`,
    background === undefined ? '' : `ansi-on-${background}`,
    isBold ? 'ansi-bold' : '',
    isDim ? 'ansi-dim' : '',
    isItalic ? 'ansi-italic' : '',
    isUnderlined ? 'ansi-underlined' : '',
  ]
    .filter((name) => name !== '')
    .join(' ');
}
