/** `make-command.ts FILE`: the `flynn` command of this repository in one file. */
import { mkdir, utimes } from 'node:fs/promises';
import { dirname } from 'node:path';
import { writeFileAtomic } from '@flynn/kit/files';
import { bundle } from './images/bundle.ts';

const [file] = process.argv.slice(2);
if (file === undefined) throw new Error('make-command.ts FILE');
// As old as what it is made of: a source that is changed meanwhile is newer.
const begun = new Date();
const contents = await bundle('cli/main.ts');
await mkdir(dirname(file), { recursive: true });
await writeFileAtomic(file, contents, { mode: 0o644 });
await utimes(file, begun, begun);
