import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { type Command, CommanderError } from 'commander';
import { openProgram } from './program.ts';
import { TestIo } from './testing.ts';

const root = join(import.meta.dirname, '..');

/** `isWhole`: to be typed as it stands. Otherwise it is a mention, which may leave out what the command needs. */
type Line = { place: string; text: string; isWhole: boolean };

const commandStart = /(?:^|[;|(]|&&)\s*(?:\$ )?(?:\.\/bin\/)?flynn (?=[a-z-])/g;

/** Of blocks of code, and of spans within text. */
function linesOf(file: string): Line[] {
  const text = readFileSync(join(root, file), 'utf8');
  const found: Line[] = [];
  let isFenced = false;
  let prose = '';
  for (const [index, line] of text.split('\n').entries()) {
    const isFence = /^\s*```/.test(line);
    if (isFence) isFenced = !isFenced;
    const isCode = isFenced || /^ {4}\S/.test(line);
    prose += isCode || isFence ? '\n' : `${line}\n`;
    if (!isCode || isFence) continue;
    for (const { index: at, 0: start } of line.matchAll(commandStart)) {
      found.push({ place: `${file}:${index + 1}`, text: line.slice(at + start.length), isWhole: true });
    }
  }
  for (const { index: at, 1: span = '' } of prose.matchAll(/`flynn ([a-z-][^`]*)`/g)) {
    const place = `${file}:${prose.slice(0, at).split('\n').length}`;
    found.push({ place, text: span.replaceAll(/\s+/g, ' '), isWhole: false });
  }
  return found;
}

/** Commands in quotes within a text, and those of the web page, which stand alone. What is filled in later is `X`. */
function hintsOf(file: string): Line[] {
  const text = readFileSync(join(root, file), 'utf8');
  const filled = text.replaceAll(/\$\{(?:[^{}\n]|\{[^{}\n]*\})*\}|\{[\w.]+\}/g, 'X');
  const hint = file.endsWith('.tsx') ? /['"`>]flynn ([a-z-][^'"`<]*)['"`<]/g : /"flynn ([a-z-][^"]*)"/g;
  return filled.split('\n').flatMap((line, index) =>
    [...line.matchAll(hint)].flatMap(([, text = '']) => {
      // One whose very name is filled in could be any.
      const isOpen = /(?:^|\s)(?:[a-z]+X|--X)\b|^-a \S+(?: X\b|$)|^[a-z]+ X X=X$/.test(text);
      return isOpen ? [] : [{ place: `${file}:${index + 1}`, text, isWhole: false }];
    }),
  );
}

/** As a shell reads them, up to where the command ends or, two spaces apart, is explained. */
function wordsOf(text: string): string[] {
  const [command = ''] = text.split(/(?<=[^\s\\]) {2,}|\s#\s/);
  const words: string[] = [];
  for (const [all] of command.matchAll(/(?:'[^']*'|"[^"]*"|[^\s'";|&<>()]|\\.)+|[;|&<>()]/g)) {
    if (/^[;|&<>()]$/.test(all)) break;
    if (all !== '\\') words.push(all.replaceAll(/'([^']*)'|"([^"]*)"/g, '$1$2'));
  }
  return words.at(-1) === '…' ? words.slice(0, -1) : words;
}

/** What is wrong with a command line, if anything: nothing is carried out. */
async function refusalOf({ text, isWhole }: Line): Promise<string | undefined> {
  const io = new TestIo();
  const program = openProgram(io, () => undefined);
  const hold = (command: Command) => {
    command.action(() => {
      const [extra] = command.commands.length > 0 ? command.args : [];
      if (extra !== undefined) throw new CommanderError(2, 'unknown', `${command.name()} has no "${extra}"`);
    });
    command.commands.forEach(hold);
  };
  program.commands.forEach(hold);
  try {
    await program.parseAsync(wordsOf(text), { from: 'user' });
    return undefined;
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    const isShort = ['commander.missingArgument', 'commander.optionMissingArgument'].includes(error.code);
    return error.exitCode === 0 || (isShort && !isWhole) ? undefined : error.message;
  }
}

test('every command line in the documents is one that the command line takes', async () => {
  const files = globSync('**/*.md', { cwd: root, exclude: (name) => name === 'node_modules' });
  const lines = files.toSorted().flatMap(linesOf);
  assert.ok(lines.length > 500, `only ${lines.length} were found`);
  const wrong: string[] = [];
  for (const line of lines) {
    const refusal = await refusalOf(line);
    if (refusal !== undefined) wrong.push(`${line.place}: flynn ${line.text}\n  ${refusal}`);
  }
  assert.deepEqual(wrong, [], wrong.join('\n'));
});

test('every command line that the parts of flynn tell people is one that the command line takes', async () => {
  const all = globSync('{bootstrap,cli,layer0,layer1}/**/*.{ts,tsx}', { cwd: root });
  const files = all.filter((file) => !/\.test\.ts$|-fixture\.|node_modules/.test(file));
  const lines = files.toSorted().flatMap(hintsOf);
  assert.ok(lines.length > 150, `only ${lines.length} were found`);
  const wrong: string[] = [];
  for (const line of lines) {
    const refusal = await refusalOf(line);
    if (refusal !== undefined) wrong.push(`${line.place}: flynn ${line.text}\n  ${refusal}`);
  }
  assert.deepEqual(wrong, [], wrong.join('\n'));
});
