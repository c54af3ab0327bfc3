/** For tests: a worker that answers HTTP with its process id, and does to itself what it is asked for. */
import { createServer } from 'node:http';
import { serveParent } from './worker.ts';

const port = Number(process.argv[2]);
if (process.argv[3] === 'broken') process.exit(1);

let busy = 0;
/** Answered when it is told to stop. */
const waiting: (() => void)[] = [];
const server = createServer((request, response) => {
  busy += 1;
  response.on('finish', () => (busy -= 1));
  const answer = () => void response.end(String(process.pid));
  if (request.url === '/slow') waiting.push(answer);
  else answer();
});
function stop(): void {
  for (const answer of waiting) answer();
  server.close(() => process.exit(0));
}
// A test that waits for a while finds its connection again.
server.keepAliveTimeout = 60_000;
process.once('SIGTERM', stop);
let told: unknown;
server.listen({ port, host: '127.0.0.1', reusePort: true }, () => {
  const parent = serveParent(process, {
    answers: {
      'count-told': async () => told ?? null,
      async count(input) {
        told = typeof input === 'object' && input !== null && 'count' in input ? input.count : input;
        return null;
      },
      async leave() {
        if (busy > 0) return false;
        void parent.tellLast({ pid: process.pid }).then(stop);
        return true;
      },
      busy: async () => busy,
      pid: async () => process.pid,
      async spin(pid) {
        while (pid === process.pid);
        return null;
      },
      echo: async (input) => input ?? null,
      fail: async () => {
        throw new Error('it cannot be said');
      },
    },
    onOrphaned: stop,
  });
});
