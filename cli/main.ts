import { systemClock } from '@flynn/kit/clock';
import { messageOf } from '@flynn/kit/errors';
import { runCli } from './program.ts';

let endsWithReader = false;
let isUnwritten = false;

// `flynn log | head` is no failure, and ends with `head`. What changes something is not left half done by it.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  const isLeft = error.code === 'EPIPE';
  if (!isLeft && !isUnwritten) process.stderr.write(`flynn: cannot write: ${messageOf(error)}\n`);
  isUnwritten ||= !isLeft;
  if (endsWithReader) process.exit(isLeft ? 0 : 1);
  if (isUnwritten) process.exitCode ||= 1;
});
// There is nobody else to tell.
process.stderr.on('error', () => undefined);

const code = await runCli(process.argv.slice(2), {
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  env: process.env,
  cwd: process.cwd(),
  clock: systemClock,
  onSignal(signal, listener) {
    process.on(signal, listener);
    return () => process.off(signal, listener);
  },
  endWithReader() {
    endsWithReader = true;
  },
});
process.exitCode = code === 0 && isUnwritten ? 1 : code;
// A stdin that is still read would keep the process.
process.stdin.destroy();
