/** For tests: a router with TLS before a control plane that tells certificates. */
import { once } from 'node:events';
import type { TestContext } from 'node:test';
import { connect } from 'node:tls';
import type { ConnectionOptions, TLSSocket } from 'node:tls';
import { certificates as routes } from '@flynn/controller/certificates/api';
import type { ServedCertificate } from '@flynn/controller/certificates/model';
import { createDiscoveryClient } from '@flynn/discovery/client';
import { HttpClient } from '@flynn/kit/http-client';
import { handle, startServer } from '@flynn/kit/http-server';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { createAuthority, issueCertificate } from '@flynn/kit/tls';
import type { Credentials } from '@flynn/kit/tls';
import { startRouter } from '../router.ts';
import type { Router } from '../router.ts';
import { ControlPlane, Feed } from '../testing.ts';
import type { TlsProfile } from './profile.ts';

export class CertificatePlane {
  readonly #certificates = new Map<string, ServedCertificate>();
  readonly #unreadable = new Set<string>();
  readonly #feed = new Feed();

  readonly handlers = [
    handle(routes.events, async () =>
      this.#feed.follow(() => [
        ...[...this.#certificates.values()].map((one) => ({ event: 'set', data: one })),
        ...[...this.#unreadable].map((id) => ({ event: 'unreadable', data: { id } })),
      ]),
    ),
  ];

  set(certificate: ServedCertificate): void {
    this.#certificates.set(certificate.id, certificate);
    this.#feed.tell({ event: 'set', data: certificate });
  }

  remove(id: string): void {
    this.#certificates.delete(id);
    this.#feed.tell({ event: 'remove', data: { id } });
  }

  tickets(key: Buffer): void {
    this.#feed.tell({ event: 'tickets', data: { key: key.toString('base64') } });
  }

  /** As if another version had come in the controller's place. */
  cannotReadAnyMore(id: string): void {
    this.#certificates.delete(id);
    this.#unreadable.add(id);
    this.#feed.cut();
  }

  /** As if the controller had gone and come back. */
  forgetQuietly(id: string): void {
    this.#certificates.delete(id);
    this.#feed.cut();
  }
}

export type TlsWorld = {
  plane: ControlPlane;
  certificates: CertificatePlane;
  router: Router;
  port: number;
  authority: Credentials;
  /** Until the router shows what the test wants for that name. */
  shown(serverName: string, commonName: string): Promise<void>;
};

/** A route for app.test to the service `web`. */
export async function setUpTls(
  t: TestContext,
  options: {
    profile?: TlsProfile;
    trustedProxies?: readonly string[];
    first?: (authority: Credentials) => Promise<ServedCertificate[]>;
  } = {},
): Promise<TlsWorld> {
  const plane = new ControlPlane();
  plane.setRoute({ id: 'r1', domain: 'app.test' });
  const certificates = new CertificatePlane();
  const authority = await createAuthority('test authority');
  for (const one of (await options.first?.(authority)) ?? []) certificates.set(one);
  const log = silentLogger();
  const handlers = [...plane.handlers, ...certificates.handlers];
  const server = await startServer({ name: 'plane', handlers, host: '127.0.0.1', port: 0, log });
  const controller = new HttpClient({ baseUrl: server.url, name: 'the controller' });
  const discovery = createDiscoveryClient({ url: server.url });
  const router = await startRouter({
    controller,
    discovery,
    host: '127.0.0.1',
    httpPort: 0,
    clusterKey: 'key',
    tls: { port: 0, profile: options.profile ?? 'modern' },
    ...(options.trustedProxies === undefined ? {} : { trustedProxies: options.trustedProxies, proxyProtocol: true }),
    log,
  });
  t.after(async () => {
    await router.stop({ drainMs: 0 });
    await controller.close();
    await discovery.close();
    await server.close();
  });
  const port = router.httpsPort ?? 0;
  const shown = async (servername: string, commonName: string): Promise<void> => {
    const isShown = async () => {
      const socket = await shake(port, { servername, rejectUnauthorized: false });
      const { subject } = socket.getPeerCertificate();
      socket.destroy();
      return subject?.CN === commonName;
    };
    await waitFor(isShown, { what: `${commonName} for ${servername}`, deadlineMs: 60_000, intervalMs: 5 });
  };
  return { plane, certificates, router, port, authority, shown };
}

/** A handshake that was done; throws what ended it. */
export async function shake(port: number, options: ConnectionOptions): Promise<TLSSocket> {
  const socket = connect({ host: '127.0.0.1', port, ...options });
  await once(socket, 'secureConnect');
  return socket;
}

export async function servedBy(
  authority: Credentials,
  options: { id: string; domains: string[]; name?: string; source?: 'own' | 'acme'; days?: number; now?: number },
): Promise<ServedCertificate> {
  const { id, domains, source = 'own', name = domains[0] ?? id } = options;
  const { days, now = Date.now() } = options;
  const more = days === undefined ? {} : { days };
  const made = await issueCertificate(authority, { name, addresses: domains, now, ...more });
  const notAfter = new Date(now + (days ?? 730) * 24 * 3_600_000).toISOString();
  return { id, domains, source, ...made, notAfter, challenges: [] };
}
