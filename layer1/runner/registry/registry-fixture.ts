/** A registry with one image, played over HTTP. For tests. */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { FlynnError } from '@flynn/kit/errors';

export const digestOf = (bytes: Buffer | string): string =>
  `sha256:${createHash('sha256').update(bytes).digest('hex')}`;

const architecture = process.arch === 'x64' ? 'amd64' : process.arch;

/** By what follows `/v2/team/app/`: an image of one layer, for this machine among others. */
export function registryFiles(layer = Buffer.from('layer')): Record<string, Buffer | string> {
  const rootfs = { type: 'layers', diff_ids: [digestOf('plain')] };
  const config = JSON.stringify({
    os: 'linux',
    architecture,
    config: { Cmd: ['/x'], ExposedPorts: { '81/tcp': {} } },
    rootfs,
  });
  const descriptor = (bytes: Buffer | string, mediaType = '') => ({
    mediaType,
    digest: digestOf(bytes),
    size: bytes.length,
  });
  const layerType = 'application/vnd.oci.image.layer.v1.tar+gzip';
  const manifest = JSON.stringify({ config: descriptor(config), layers: [descriptor(layer, layerType)] });
  const own = { ...descriptor(manifest), platform: { os: 'linux', architecture } };
  const other = { ...descriptor('x'), platform: { os: 'linux', architecture: 's390x' } };
  return {
    'manifests/1.4': JSON.stringify({ manifests: [other, own] }),
    [`manifests/${digestOf(manifest)}`]: manifest,
    [`blobs/${digestOf(config)}`]: config,
    [`blobs/${digestOf(layer)}`]: layer,
  };
}

/** `team/app:1.4` for those who log in; `host` is how references name it, and it has no TLS. */
export async function startRegistry(login: {
  username: string;
  password: string;
}): Promise<AsyncDisposable & { host: string }> {
  const files = registryFiles();
  const wanted = `Basic ${Buffer.from(`${login.username}:${login.password}`).toString('base64')}`;
  const server = createServer((request, response) => {
    const body = files[(request.url ?? '').replace('/v2/team/app/', '')];
    if (request.headers.authorization !== wanted) {
      response.writeHead(401, { 'www-authenticate': 'Basic realm="test"' }).end();
    } else if (body === undefined) response.writeHead(404).end();
    else response.end(body);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address !== 'object') throw new FlynnError('internal', 'the registry has no port');
  return {
    host: `127.0.0.1:${address.port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
