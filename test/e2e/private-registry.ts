/**
 * A registry's program: it serves one image to those who log in. Reads `RegistryInput` as JSON and says "listens" once it does.
 * Run in the network namespace of whoever has it.
 */
import { createServer } from 'node:http';
import { json } from 'node:stream/consumers';

export type RegistryInput = Readonly<{
  address: string;
  port: number;
  username: string;
  password: string;
  /** By what follows `/v2/NAME/` in a request, in base64. */
  files: Readonly<Record<string, string>>;
}>;

const { address, port, username, password, files } = (await json(process.stdin)) as RegistryInput;
const wanted = `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`;

createServer((request, response) => {
  const file = files[(request.url ?? '').replace(/^\/v2\/.+?\/(?=manifests|blobs)/, '')];
  if (request.headers.authorization !== wanted) {
    response.writeHead(401, { 'www-authenticate': 'Basic realm="private"' }).end();
  } else if (file === undefined) response.writeHead(404).end();
  else response.end(Buffer.from(file, 'base64'));
}).listen(port, address, () => process.stdout.write('listens\n'));
