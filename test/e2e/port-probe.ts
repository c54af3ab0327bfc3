/**
 * A stranger's program: what do these ports tell somebody who has no credentials, or wrong ones? It reads `ProbeInput` as
 * JSON and writes a `Finding` for each target. Run in the network namespace of whoever tries.
 */
import { createSocket } from 'node:dgram';
import { type IncomingMessage, Agent as PlainAgent, request as plainRequest } from 'node:http';
import { Agent as TlsAgent, request as tlsRequest } from 'node:https';
import { connect } from 'node:net';
import { json, text } from 'node:stream/consumers';

export type Target = Readonly<{ protocol: 'tcp' | 'udp'; address: string; port: number }>;

export type ProbeInput = Readonly<{
  targets: readonly Target[];
  /** What is asked for over HTTP. */
  paths: readonly string[];
  /** Keys that are shown besides those of nobody. */
  keys?: readonly string[];
  /** A certificate of an authority nobody here knows; PEM. */
  certificate: string;
  privateKey: string;
}>;

/** `refuses`: something listens, and says nothing but that. `said`: what it answered that it should not have. */
export type Finding = Target & Readonly<{ verdict: 'closed' | 'refuses' | 'answers'; said: string }>;

const reachMs = 10_000;
const answerMs = 20_000;

const credentials: readonly Record<string, string>[] = [
  {},
  { authorization: 'Bearer of-somebody-else' },
  { authorization: `Basic ${Buffer.from('x:of-somebody-else').toString('base64')}` },
];

/** A query for a name every cluster has, as DNS has it on the wire. */
const dnsQuery = Buffer.from(
  `beef01000001000000000000${['blobstore', 'flynn'].map((part) => `${part.length.toString(16).padStart(2, '0')}${Buffer.from(part).toString('hex')}`).join('')}0000010001`,
  'hex',
);

async function probe(target: Target, input: ProbeInput): Promise<Finding> {
  if (target.protocol === 'udp') {
    const said = await answerOverUdp(target);
    return { ...target, verdict: said === undefined ? 'closed' : 'answers', said: said ?? '' };
  }
  if (!(await isReached(target))) return { ...target, verdict: 'closed', said: '' };
  const { certificate: cert, privateKey: key } = input;
  const clients = {
    http: { request: plainRequest, agent: new PlainAgent({ keepAlive: true }) },
    https: { request: tlsRequest, agent: new TlsAgent({ keepAlive: true, rejectUnauthorized: false }) },
    'https with a foreign certificate': {
      request: tlsRequest,
      agent: new TlsAgent({ keepAlive: true, rejectUnauthorized: false, cert, key }),
    },
  };
  for (const [how, client] of Object.entries(clients)) {
    const said = await answersOver(client, target, input);
    client.agent.destroy();
    if (said !== undefined) return { ...target, verdict: 'answers', said: `${how}, ${said}` };
  }
  return { ...target, verdict: 'refuses', said: '' };
}

function isReached({ address, port }: Target): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: address, port, timeout: reachMs });
    const end = (is: boolean) => () => {
      socket.destroy();
      resolve(is);
    };
    socket.once('connect', end(true)).once('timeout', end(false)).once('error', end(false));
  });
}

type Client = Readonly<{ request: typeof plainRequest; agent: PlainAgent }>;

/** What it told somebody on one of the paths, if it did. */
async function answersOver(
  { request, agent }: Client,
  { address: host, port }: Target,
  { paths, keys = [] }: Pick<ProbeInput, 'paths' | 'keys'>,
): Promise<string | undefined> {
  for (const headers of [...credentials, ...keys.map((key) => ({ authorization: `Bearer ${key}` }))]) {
    for (const path of paths) {
      try {
        const options = { host, port, path, headers, agent, signal: AbortSignal.timeout(answerMs) };
        const response = await new Promise<IncomingMessage>((resolve, reject) => {
          request(options, resolve).once('error', reject).end();
        });
        const body = await text(response);
        if (!isRefusal(response.statusCode ?? 0, body)) return `${path}: ${response.statusCode} ${body.slice(0, 200)}`;
      } catch {
        // Cut off in the handshake, or no HTTP: it told us nothing, and would on no other path.
        return undefined;
      }
    }
  }
  return undefined;
}

/** A path that is not there is told without asking who it is for, like a port that wants TLS. */
function isRefusal(status: number, body: string): boolean {
  if (status === 401 || status === 403) return true;
  if (status === 404) return body.includes('has nothing at');
  return status === 400 && body.includes('HTTP request to an HTTPS server');
}

function answerOverUdp({ address, port }: Target): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = createSocket('udp4');
    const end = (said?: string) => {
      clearTimeout(timer);
      socket.close();
      resolve(said);
    };
    const timer = setTimeout(end, reachMs);
    socket.once('message', (message) => end(message.toString('hex').slice(0, 40)));
    // The kernel tells of a port that refuses.
    socket.once('error', () => end());
    socket.connect(port, address, () => socket.send(dnsQuery));
  });
}

const input = (await json(process.stdin)) as ProbeInput;
const findings = await Promise.all(input.targets.map((target) => probe(target, input)));
process.stdout.write(JSON.stringify(findings));
