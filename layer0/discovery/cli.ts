/** The `flynn-discovery` command. The only file here to touch the process. */
import { hostname } from 'node:os';
import { createLogger } from '@flynn/kit/log';
import { runCli } from './program.ts';

process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  // `flynn-discovery watch web | head` is no failure.
  if (error.code === 'EPIPE') process.exit(0);
  throw error;
});

process.exitCode = await runCli(process.argv.slice(2), {
  stdout: process.stdout,
  stderr: process.stderr,
  env: process.env,
  hostname: hostname(),
  log: createLogger('flynn-discovery', { destination: process.stderr }),
  onSignal(signal, listener) {
    process.on(signal, listener);
    return () => process.off(signal, listener);
  },
});
