/**
 * For tests, in a network of its own: a router here, a backend on another host, which goes silent in the middle of requests,
 * and another that is there. Prints what became of the requests and how long each took.
 */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { waitFor } from '@flynn/kit/retry';
import { ask, setUp, settled, startBackend } from './testing.ts';

const [here, there] = ['192.0.2.1', '192.0.2.2'];
/** Longer than any run: nothing here ends by a limit of the route. */
const never = 600_000;
const soon = { deadlineMs: 60_000, intervalMs: 10 };
/** Answers two requests at once, so that two connections are kept; what is asked for later it takes in. */
const silentAfterTwo = `
// It does not outlive whoever started it.
process.stdin.resume().on('end', () => process.exit());
const asked = [];
require('node:http').createServer((request, response) => { if (asked.push(response) === 2) for (const each of asked) each.end('first'); })
  .listen(8080, '0.0.0.0', () => console.log('listening'));
require('node:net').createServer((socket) => socket.on('data', () => {}).on('error', () => {})).listen(7070, '0.0.0.0', () => console.log('listening'));
require('node:net').createServer((socket) => { socket.on('data', (bytes) => socket.write(bytes)); socket.on('error', () => {}); })
  .listen(9090, '0.0.0.0', () => console.log('listening'));`;

const ends: (() => Promise<void>)[] = [];
const owner = { after: (end: () => Promise<void>) => void ends.unshift(end) };
const run = (program: string, ...args: string[]) =>
  execFileSync(program, args, { stdio: ['ignore', 'pipe', 'inherit'] });

run('ip', 'link', 'set', 'lo', 'up');
const isolate = 'unshare';
const child = spawn(isolate, ['--net', process.execPath, '-e', silentAfterTwo], {
  stdio: ['pipe', 'pipe', 'inherit'],
});
owner.after(async () => {
  child.kill('SIGKILL');
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
});
let said = '';
child.stdout.on('data', (bytes: Buffer) => (said += bytes.toString()));
await waitFor(() => said.split('listening').length === 4, { what: 'the other host', ...soon });
const onOther = (...args: string[]) => run('nsenter', '-t', String(child.pid), '-n', ...args);
run('ip', 'link', 'add', 'near', 'type', 'veth', 'peer', 'name', 'far', 'netns', String(child.pid));
run('ip', 'addr', 'add', `${here}/24`, 'dev', 'near');
run('ip', 'link', 'set', 'near', 'up');
onOther('ip', 'addr', 'add', `${there}/24`, 'dev', 'far');
onOther('ip', 'link', 'set', 'far', 'up');

const { plane, router, port } = await setUp(owner, { firstByteMs: never, idleMs: never });
const backend = `${there}:8080`;
plane.setRoute({ id: 't', type: 'tcp', port: 7070, service: 'echo' });
const waiting = `${there}:7070`;
plane.setRoute({ id: 'waiting', domain: 'waiting.test', service: 'waiting' });
plane.up('echo', `${there}:9090`);
plane.up('web', backend);
plane.up('waiting', waiting);
await settled(router, [backend, waiting, `${there}:9090`]);
const first = await Promise.all([ask(port), ask(port)].map(async (answer) => text(await answer)));

const carried = connect({ host: '127.0.0.1', port: 7070 });
carried.on('error', () => undefined);
const closed = new Promise((resolve) => carried.once('close', resolve));
carried.write('hello');
await once(carried, 'data');
const startedMs = performance.now();
const took = async <T>(what: Promise<T>) => ({ what: await what, ms: Math.round(performance.now() - startedMs) });
const untilInFlight = (count: number, of = backend) => {
  const isSo = () => router.status().backends.some(({ address, inFlight }) => address === of && inFlight === count);
  return waitFor(isSo, { what: `${count} requests`, ...soon });
};

const post = ask(port, { method: 'POST', body: Buffer.from('x') });
await untilInFlight(1);
// It has arrived whole, and discovery keeps the backend: there is nothing that the kernel could send in vain.
const acknowledged = ask(port, { headers: { host: 'waiting.test' } });
await untilInFlight(1, waiting);
const table = () => run('ss', '--no-header', '--tcp', '--numeric', 'state', 'established', 'dst', waiting).toString();
await waitFor(() => /^0 +0 /.test(table()), { what: 'the request to have arrived', ...soon });
onOther('iptables', '-A', 'INPUT', '-j', 'DROP');
onOther('iptables', '-A', 'OUTPUT', '-j', 'DROP');
// Over a connection that was kept. Discovery still has the backend, and not that of the TCP route, which says nothing meanwhile.
const get = ask(port);
await untilInFlight(2);
plane.down('echo', `${there}:9090`);
const fine = await startBackend(owner, (_incoming, response) => response.end('elsewhere'));
plane.up('web', fine.address);
plane.up('waiting', fine.address);
const [got, refused, ended, repeated] = await Promise.all([
  took(get.then((answer) => text(answer))),
  took(post.then(({ headers }) => headers['x-flynn-error'])),
  took(closed.then(() => 'cut')),
  took(acknowledged.then((answer) => text(answer))),
]);
console.log(JSON.stringify({ first, got, refused, ended, repeated }));
for (const end of ends) await end();
