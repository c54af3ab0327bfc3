/** The git receiver; started as `main.ts hook` it is git's pre-receive hook instead. */
import { runHook } from './hook.ts';

if (process.argv[2] === 'hook') {
  const code = await runHook({ env: process.env, stdin: process.stdin, stdout: process.stdout });
  process.exit(code);
}

// Not before: the hook runs once for each push and should not load what only the server needs.
const { runReceiver } = await import('./receiver.ts');
await runReceiver({ hookCommand: [process.execPath, ...process.execArgv, process.argv[1] ?? '', 'hook'] });
