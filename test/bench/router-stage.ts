/** A backend, nginx, HAProxy and our router in front of it, each on one core at most, and the platform that our router asks. */
import { randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { bundle } from '@flynn/bootstrap/images/bundle';
import { recipes } from '@flynn/bootstrap/images/recipes';
import { freePort } from '@flynn/kit/testing-ports';
import { createAuthority } from '@flynn/kit/tls';
import { routerEnv, startPlane } from '@flynn/router/hostile/router-process';
import type { ControlPlane, Owner } from '@flynn/router/testing';
import { servedBy } from '@flynn/router/tls/testing';
import { openToolbox, startProgram } from './router-program.ts';
import type { Running, Toolbox } from './router-program.ts';

export const host = 'app.test';
/** What wrk can resolve, and so ask for in its handshakes. */
export const tlsName = 'localhost';
const cores = 1;
/** One backend that looks like four. */
export const backendHosts = ['127.0.0.1', '127.0.0.2', '127.0.0.3', '127.0.0.4'] as const;

export type Proxy = Running & { readonly name: string; readonly port: number; readonly tlsPort: number };

export type Stage = AsyncDisposable & {
  readonly toolbox: Toolbox;
  readonly dir: string;
  readonly backendPort: number;
  readonly plane: ControlPlane;
  readonly nginx: Proxy;
  readonly haproxy: Proxy;
  readonly flynn: Proxy;
  /** The ports of the same TCP route. */
  readonly tcp: { flynn: number; haproxy: number };
  /** Ends what is given to it with the stage. */
  readonly owner: Owner;
  /** Another router, on the same routes unless it asks another platform. */
  startRouter(options?: { env?: Record<string, string>; planeUrl?: string }): Promise<Proxy>;
};

/** `/tiny`, `/10k`, `/1m` are there to be read; `/post` takes whatever comes. */
export async function openStage(): Promise<Stage> {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-bench-router-'));
  const started: Running[] = [];
  const ends: (() => Promise<void>)[] = [];
  async function close(): Promise<void> {
    await Promise.all(started.map((each) => each.stop()));
    for (const end of ends) await end();
    await rm(dir, { recursive: true, force: true });
  }
  try {
    const toolbox = await openToolbox(['nginx', 'haproxy', 'wrk', 'h2load'], dir);
    const start = async (argv: string[], ports: readonly number[], env?: Record<string, string>) => {
      const running = await startProgram(argv[0] === process.execPath ? bare : toolbox, argv, {
        ports,
        ...(env === undefined ? {} : { env }),
      });
      started.push(running);
      return running;
    };
    const startNginx = async (name: string, port: number, config: string) => {
      const prefix = join(dir, name);
      await mkdir(join(prefix, 'www'), { recursive: true });
      await writeFile(join(prefix, 'nginx.conf'), config);
      return start(['nginx', '-p', prefix, '-e', 'stderr', '-c', join(prefix, 'nginx.conf')], [port]);
    };

    const [backendPort, nginxPort, haproxyPort] = [await freePort(), await freePort(), await freePort()];
    const www = join(dir, 'backend/www');
    await mkdir(www, { recursive: true });
    await writeFile(join(www, '10k'), randomBytes(10_000).toString('base64').slice(0, 10_000));
    await writeFile(join(www, '1m'), randomBytes(1_000_000));
    await startNginx('backend', backendPort, backendConfig(backendPort, www));
    const [tcpPort, haproxyTcpPort] = [await freePort(), await freePort()];
    const [nginxTlsPort, haproxyTlsPort] = [await freePort(), await freePort()];
    const authority = await createAuthority('bench');
    const served = await servedBy(authority, { id: 'c1', domains: [host, tlsName] });
    const pem = join(dir, 'served.pem');
    await writeFile(pem, `${served.certificate}\n${served.privateKey}\n`);
    const nginx = await startNginx(
      'nginx',
      nginxPort,
      nginxConfig({ port: nginxPort, tlsPort: nginxTlsPort, pem, backendPort }),
    );
    await writeFile(
      join(dir, 'haproxy.cfg'),
      haproxyConfig({ port: haproxyPort, tlsPort: haproxyTlsPort, pem, tcpPort: haproxyTcpPort, backendPort }),
    );
    const haproxy = await start(['haproxy', '-db', '-f', join(dir, 'haproxy.cfg')], [haproxyPort]);

    const owner: Owner = { after: (end) => ends.push(end) };
    const { plane, certificates, url: ownUrl } = await startPlane(owner);
    certificates.set(served);
    plane.setRoute({ id: 'r1', domain: host });
    plane.setRoute({ id: 'r2', domain: tlsName });
    plane.setRoute({ id: 't1', type: 'tcp', port: tcpPort });
    plane.up('web', `127.0.0.1:${backendPort}`);
    // As its image has it: in one file, and with the settings it has there.
    const { entrypoint = [], env: ofImage = {} } = recipes.router;
    const program = join(dir, 'router.mjs');
    await writeFile(program, await bundle('layer1/router/main.ts'));
    const startRouter: Stage['startRouter'] = async ({ env = {}, planeUrl = ownUrl } = {}) => {
      const [port, tlsPort, statusPort] = [await freePort(), await freePort(), await freePort()];
      const running = await start([process.execPath, ...entrypoint.slice(1, -1), program], [port, tlsPort], {
        ...ofImage,
        ...routerEnv({ planeUrl, port, tlsPort, statusPort }),
        ...env,
      });
      return { ...running, name: 'flynn', port, tlsPort };
    };
    const flynn = await startRouter();
    return {
      toolbox,
      dir,
      backendPort,
      plane,
      nginx: { ...nginx, name: 'nginx', port: nginxPort, tlsPort: nginxTlsPort },
      haproxy: { ...haproxy, name: 'HAProxy', port: haproxyPort, tlsPort: haproxyTlsPort },
      flynn,
      tcp: { flynn: tcpPort, haproxy: haproxyTcpPort },
      owner,
      startRouter,
      [Symbol.asyncDispose]: close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

const bare: Pick<Toolbox, 'command' | 'pidOf'> = {
  command: ([program = '', ...args]) => [program, ...args],
  pidOf: async (childPid) => childPid,
};

function nginxBase(): string {
  return `worker_processes ${cores};
user root;
daemon off;
pid nginx.pid;
error_log stderr crit;
worker_rlimit_nofile 20000;
events { worker_connections 9000; }
`;
}

function httpBase(): string {
  return `access_log off;
  client_body_temp_path body;
  proxy_temp_path proxy;
  fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
  keepalive_requests 1000000000;
`;
}

function backendConfig(port: number, www: string): string {
  return `${nginxBase()}http {
  ${httpBase()}  sendfile on;
  tcp_nopush on;
  open_file_cache max=100;
  client_max_body_size 0;
  client_body_buffer_size 128k;
  server {
${backendHosts.map((host) => `    listen ${host}:${port} backlog=4096;`).join('\n')}
    root ${www};
    location = /tiny { return 200 "hello"; }
    location = /post { return 200 "taken"; }
  }
}
`;
}

type Ports = { port: number; tlsPort: number; pem: string; backendPort: number };

/** As its manual advises for speed: connections to backends are kept, and no body touches the disk. */
function nginxConfig({ port, tlsPort, pem, backendPort }: Ports): string {
  return `${nginxBase()}http {
  ${httpBase()}  client_max_body_size 0;
  client_body_buffer_size 128k;
  proxy_max_temp_file_size 0;
  proxy_http_version 1.1;
  upstream web { server 127.0.0.1:${backendPort}; keepalive 256; keepalive_requests 1000000000; }
  server {
    listen 127.0.0.1:${port} backlog=4096;
    listen 127.0.0.1:${tlsPort} ssl http2 backlog=4096;
    ssl_certificate ${pem};
    ssl_certificate_key ${pem};
    server_name ${host};
    location / {
      proxy_pass http://web;
      proxy_set_header Host $host;
      proxy_set_header Connection "";
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
      proxy_set_header X-Forwarded-Proto $scheme;
      proxy_set_header X-Forwarded-Port $server_port;
      proxy_set_header X-Request-Id $request_id;
      proxy_set_header X-Request-Start $msec;
    }
  }
}
`;
}

function haproxyConfig({ port, tlsPort, pem, tcpPort, backendPort }: Ports & { tcpPort: number }): string {
  return `global
  nbthread ${cores}
  maxconn 9000
defaults
  mode http
  timeout connect 2s
  timeout client 60s
  timeout server 60s
frontend all
  option forwardfor
  bind 127.0.0.1:${port} backlog 4096
  bind 127.0.0.1:${tlsPort} ssl crt ${pem} alpn h2,http/1.1 backlog 4096
  unique-id-format %{+X}o%ci:%cp_%fi:%fp_%Ts_%rt:%pid
  unique-id-header X-Request-Id
  http-request set-header X-Forwarded-Proto http
  http-request set-header X-Forwarded-Port %[dst_port]
  http-request set-header X-Request-Start %[date()]
  use_backend web if { req.hdr(host) -m beg ${host} ${tlsName} }
backend web
  http-reuse always
  server one 127.0.0.1:${backendPort}
listen tcp
  mode tcp
  bind 127.0.0.1:${tcpPort} backlog 4096
  server one 127.0.0.1:${backendPort}
`;
}
