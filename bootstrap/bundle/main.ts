/** `npm run bundle [-- --out FOLDER] [--version VERSION]`: the file that hosts are installed from. */
import { resolve } from 'node:path';
import { parseArgs, styleText } from 'node:util';
import { messageOf } from '@flynn/kit/errors';
import { makeBundle, nextText } from './make.ts';

try {
  const { values } = parseArgs({ options: { out: { type: 'string' }, version: { type: 'string' } } });
  // npm runs scripts in the repository; the folder was meant from where it was typed.
  const folder = resolve(process.env['INIT_CWD'] ?? '.', values.out ?? 'dist');
  const file = await makeBundle({
    folder,
    now: new Date(),
    report: (line) => void process.stderr.write(`${line}\n`),
    ...(values.version === undefined ? {} : { version: values.version }),
  });
  process.stdout.write(nextText(file));
} catch (error) {
  process.stderr.write(`\n${styleText('red', '✖')} ${messageOf(error)}\n`);
  process.exitCode = 1;
}
