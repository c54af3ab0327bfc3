/**
 * What does a `.env` file set, and how is one written? Pure, and without schemas: the web page reads by it what is pasted, as the
 * command line reads files.
 */

/** `problem`: which line sets nothing, and what to write. It holds no value: what could not be read may well be a secret. */
export type EnvFile =
  | Readonly<{ is: 'read'; values: Readonly<Record<string, string>> }>
  | Readonly<{ is: 'wrong'; problem: string }>;

/** Values as a `.env` file holds them, for us and for others who read such files: every byte comes back. */
export function formatEnvFile(values: Readonly<Record<string, string>>): string {
  return Object.entries(values)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, value]) => `${name}=${quoteForEnvFile(value)}\n`)
    .join('');
}

function quoteForEnvFile(value: string): string {
  if (/^[A-Za-z0-9_@%+=:,./-]+$/.test(value)) return value;
  if (!/['\r]/.test(value)) return `'${value}'`;
  const named: Readonly<Record<string, string>> = { '\n': String.raw`\n`, '\r': String.raw`\r`, '\t': String.raw`\t` };
  return `"${value.replaceAll(/["\\$\n\r\t]/g, (char) => named[char] ?? `\\${char}`)}"`;
}

const escapes: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t' };

/**
 * NAME, then a value in single quotes (as it is), in double quotes (\n \r \t \" \\ \$), or bare: to the end of the line,
 * or to a # after white space, so that a # within a password stays. Quoted values may span lines.
 */
const assignment =
  /^[^\S\n]*(?:export[^\S\n]+)?([A-Za-z_][A-Za-z0-9_]*)[^\S\n]*=(?:[^\S\n]*'([^']*)'|[^\S\n]*"((?:[^"\\]|\\[^])*)"|(?![^\S\n]*['"])(.*))[^\S\n]*(?:(?<=\s)#[^\n]*)?$/gmu;

/** Assignments, empty lines and # comments; of a name that is set twice the last value. */
export function readEnvFile(text: string): EnvFile {
  const found: [string, string][] = [];
  const rest = text
    .replace(/^\u{feff}/u, '')
    .replaceAll(assignment, (_, name: string, single?: string, double?: string, bare?: string) => {
      const unquoted = double?.replaceAll(/\\([^])/g, (__, char: string) => escapes[char] ?? char);
      // Not by the expression above: where a bare value may end anywhere, a run of spaces is gone through again and again.
      const uncommented = bare?.replace(/(?<=\s)#.*/u, '').trim();
      found.push([name, single ?? unquoted ?? uncommented ?? '']);
      return '';
    });
  const wrong = rest.split('\n').find((line) => line.trim() !== '' && !line.trim().startsWith('#'));
  if (wrong !== undefined) return { is: 'wrong', problem: setsNothing(text, wrong) };
  return { is: 'read', values: Object.fromEntries(found) };
}

/** By where it is and the name it begins with: the rest of the line may well be a secret. */
function setsNothing(text: string, line: string): string {
  const at = text.split('\n').indexOf(line) + 1;
  const [, name] = /^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=/.exec(line) ?? [];
  const which = `${at === 0 ? 'a line' : `line ${at}`}${name === undefined ? '' : ` (${name}=…)`}`;
  return `${which} of the file sets nothing: write NAME=VALUE, NAME="VALUE" or NAME='VALUE', with the quotes closed`;
}
