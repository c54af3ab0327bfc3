/** `npm run down [-- --keep-images] [--force]`: takes away all that `up` made on this machine, and only that. */
import { styleText } from 'node:util';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { takeDown } from './leaving/take-down.ts';
import { pathOfRoot } from './machine/program.ts';

process.env['PATH'] = pathOfRoot(process.env['PATH']);
try {
  const flags = process.argv.slice(2);
  const unknown = flags.filter((flag) => flag !== '--keep-images' && flag !== '--force');
  if (unknown.length > 0) {
    throw new FlynnError('invalid', `unknown option ${unknown.join(' ')}; there are --keep-images and --force`);
  }
  const [keepImages, isForced] = [flags.includes('--keep-images'), flags.includes('--force')];
  await takeDown({ env: process.env, keepImages, isForced });
} catch (error) {
  process.stderr.write(`\n${styleText('red', '✖')} ${messageOf(error)}\n`);
  // What was given up on may still be waiting for its answer.
  process.exit(1);
}
