/** A DNS zone for tests: TXT records behind a name server, and the hook that changes them. */
import { createHmac } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { text } from 'node:stream/consumers';
import { z } from 'zod';

const callSchema = z.object({
  action: z.enum(['present', 'cleanup']),
  name: z.string(),
  type: z.literal('TXT'),
  value: z.string(),
});

export type TestZone = AsyncDisposable &
  Readonly<{
    hookUrl: string;
    /** By name, what is there now. */
    records: ReadonlyMap<string, ReadonlySet<string>>;
    /** As `action name`, in their order. */
    calls: readonly string[];
  }>;

/** Answers nothing but TXT, on port 53 of that address. A call without the secret's signature is refused. */
export async function startZone(options: { address: string; secret: string }): Promise<TestZone> {
  const records = new Map<string, Set<string>>();
  const calls: string[] = [];
  const server = createSocket('udp4');
  server.on('message', (query, from) => {
    const { name, end } = questionOf(query);
    const isText = query.readUInt16BE(end - 4) === 16;
    const values = isText ? [...(records.get(name.toLowerCase()) ?? [])] : [];
    server.send(answerTo(query, end, values), from.port, from.address);
  });
  server.bind(53, options.address);
  await once(server, 'listening');
  const hook = createServer((request, response) => {
    void text(request).then((body) => {
      const signature = `sha256=${createHmac('sha256', options.secret).update(body).digest('hex')}`;
      if (request.headers['x-flynn-signature'] !== signature) {
        response.writeHead(403).end('who are you?');
        return;
      }
      const { action, name, value } = callSchema.parse(JSON.parse(body));
      calls.push(`${action} ${name}`);
      const values = records.get(name) ?? new Set();
      if (action === 'present') values.add(value);
      else values.delete(value);
      if (values.size > 0) records.set(name, values);
      else records.delete(name);
      response.end();
    });
  });
  hook.listen(0, '127.0.0.1');
  await once(hook, 'listening');
  const address = hook.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  return {
    hookUrl: `http://127.0.0.1:${port}/dns`,
    records,
    calls,
    async [Symbol.asyncDispose]() {
      server.close();
      hook.close();
      hook.closeAllConnections();
      await Promise.all([once(server, 'close'), once(hook, 'close')]);
    },
  };
}

/** Of the first question, and where it ends: after its type and class. */
function questionOf(query: Buffer): { name: string; end: number } {
  const labels: string[] = [];
  let at = 12;
  for (let length = query.readUInt8(at); length > 0; length = query.readUInt8(at)) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length));
    at += 1 + length;
  }
  return { name: labels.join('.'), end: at + 5 };
}

/** Authoritative, with the question repeated; each name in an answer points to that of the question. */
function answerTo(query: Buffer, end: number, values: readonly string[]): Buffer {
  const head = Buffer.from(query.subarray(0, end));
  head.writeUInt16BE(0x8580, 2);
  head.writeUInt16BE(values.length, 6);
  head.writeUInt32BE(0, 8);
  const answers = values.map((value) => {
    const record = Buffer.from([0xc0, 12, 0, 16, 0, 1, 0, 0, 0, 1, 0, value.length + 1, value.length]);
    return Buffer.concat([record, Buffer.from(value, 'latin1')]);
  });
  return Buffer.concat([head, ...answers]);
}
