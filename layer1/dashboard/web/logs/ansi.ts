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

/** CSI … letter; OSC … BEL or ST; a choice, as of a charset; any other escape of two characters. */
const sequence = /\x1b\[([0-?]*)[ -/]*([@-~])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[ -/]+[0-~]|\x1b./g;

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
    // With a sign in front it is a terminal's own, and no colour.
    const codes = match[2] === 'm' && !/[<=>?]/.test(match[1] ?? '') ? (match[1] ?? '').split(';') : [];
    style = restyled(style, codes);
  }
  add(shown.length);
  return spans;
}

/** A code may have parts of its own behind colons, which are of no other: `4:3`, `38:5:9`, `38:2::1:2:3`. */
function restyled(style: Style, codes: readonly string[]): Style {
  let next = style;
  for (let at = 0; at < codes.length; at += 1) {
    const [code = 0, ...parts] = (codes[at] ?? '').split(':').map(Number);
    if (code === 38 || code === 48 || code === 58) {
      const rest = parts.length > 0 ? parts : codes.slice(at + 1).map(Number);
      if (code !== 58) next = recoloured(next, code === 38, rest);
      if (parts.length === 0) at += rest[0] === 5 ? 2 : 4;
    } else if (code === 4) next = { ...next, isUnderlined: parts[0] !== 0 };
    else if (parts.length === 0) next = simplyRestyled(next, code);
  }
  return next;
}

/** 256 colours and true ones: the eight that there are classes for, else as it is. */
function recoloured(style: Style, isFront: boolean, [mode, index = 16]: readonly number[]): Style {
  return mode === 5 && index < 16 ? coloured(style, isFront, names[index % 8]) : style;
}

function simplyRestyled(style: Style, code: number): Style {
  if (code === 0) return plain;
  if (code === 1) return { ...style, isBold: true };
  if (code === 2) return { ...style, isDim: true };
  if (code === 3) return { ...style, isItalic: true };
  if (code === 22) return { ...style, isBold: false, isDim: false };
  if (code === 23) return { ...style, isItalic: false };
  if (code === 24) return { ...style, isUnderlined: false };
  if (code === 39 || code === 49) return coloured(style, code === 39, undefined);
  if (code >= 30 && code <= 37) return coloured(style, true, names[code - 30]);
  if (code >= 90 && code <= 97) return coloured(style, true, names[code - 90]);
  if (code >= 40 && code <= 47) return coloured(style, false, names[code - 40]);
  if (code >= 100 && code <= 107) return coloured(style, false, names[code - 100]);
  return style;
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
