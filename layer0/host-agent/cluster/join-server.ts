/** Lets hosts in: who has a token gets the cluster's settings and a subnet. */
import { systemClock } from '@flynn/kit/clock';
import { FlynnError } from '@flynn/kit/errors';
import { handle, startServer } from '@flynn/kit/http-server';
import type { RunningServer, ServerOptions } from '@flynn/kit/http-server';
import type { Logger } from '@flynn/kit/log';
import { eitherCommand } from '@flynn/kit/operator-commands';
import { cellKeys } from '@flynn/scheduler/cell';
import { decodeJson } from '@flynn/store/codec';
import type { Store } from '@flynn/store/store';
import { z } from 'zod';
import { type EncryptionWord, readEncryption } from '../network/encryption.ts';
import { leaseKey, leaseSchema } from '../network/lease.ts';
import { wireguardRemedy } from '../network/wireguard.ts';
import { connectFailure } from './connect-failure.ts';
import { joinPort, joinRoute, joinVersion, judgePass } from './join.ts';
import { leaseSubnet, nameTaken } from './subnets.ts';

const askAgainMs = 300;

/** Written by bootstrap into the state directory. */
export const admissionSchema = z.object({
  secret: z.string().min(16),
  range: z.cidrv4(),
  /** The host's certificate followed by the authority's. */
  certificate: z.string(),
  privateKey: z.string(),
  /** What this host has of flynn: others come in with the same. */
  release: z.string().optional(),
  settings: z.unknown(),
});
export type Admission = z.output<typeof admissionSchema>;

export function startJoinServer(options: {
  admission: Admission;
  /** As it was written last: the cluster's authority may have become another one since. */
  current?: () => Promise<Admission>;
  /** As this host has them by now, the one in use first; `settings` tell the one of the time they were written. */
  sealingKeys?: () => Promise<readonly string[]>;
  /** Instead of the certificate in it, which nobody renews. */
  shown?: ServerOptions['tls'];
  address: string;
  port?: number;
  store: Store;
  endpoints: () => readonly string[];
  peers: () => readonly string[];
  now: () => number;
  log: Logger;
  signal: AbortSignal;
}): Promise<RunningServer> {
  const { address, store, log, signal } = options;
  const handler = handle(joinRoute, async ({ body, signal: asked }) => {
    const admission = (await options.current?.()) ?? options.admission;
    const verdict = judgePass(body.secret, admission.secret, options.now());
    if (verdict !== 'good') {
      const why = verdict === 'expired' ? 'the token has expired' : 'the token is not of this cluster, or was changed';
      throw new FlynnError('denied', `${why}: ${eitherCommand('token')} on a host of the cluster prints a new one`);
    }
    if (body.version !== joinVersion) {
      throw new FlynnError(
        'conflict',
        `this host joins in version ${body.version}, the cluster in version ${joinVersion}: use the same release of flynn on all hosts`,
      );
    }
    if (body.release !== undefined && admission.release !== undefined && body.release !== admission.release) {
      throw new FlynnError(
        'conflict',
        `this machine has flynn ${body.release}, the cluster ${admission.release}: install that on it, and join again`,
      );
    }
    const { hostId, address: its, site, answersAt, withoutWireguard } = body;
    if (withoutWireguard !== undefined) {
      const word = await readEncryption(store, asked);
      if (word !== 'off') throw withoutTunnel(word, withoutWireguard);
    }
    if (site === undefined && answersAt !== undefined) {
      const failure = await lastingFailure({ address: its, port: answersAt }, asked);
      if (failure !== undefined) throw unreachable({ from: address, to: `${its}:${answersAt}`, failure });
    }
    const request = {
      hostId,
      address: its,
      range: admission.range,
      now: options.now(),
      ...(site === undefined ? {} : { site }),
    };
    if (site !== undefined) await refuseOther(store, { ...request, subnet: body.subnet }, asked);
    const lease = await leaseSubnet(store, request, { signal: asked, mayMove: site !== undefined });
    const where = site === undefined ? `at ${its}` : `behind the NAT of ${site}`;
    log.info({ hostId, address: its, site, subnet: lease.subnet }, `host ${hostId} ${where} joins the cluster`);
    const [endpoints, peers] = [[...options.endpoints()], [...options.peers()]];
    const [sealingKey] = (await options.sealingKeys?.()) ?? [];
    const settings = sealingKey === undefined ? admission.settings : withSealingKey(admission.settings, sealingKey);
    return { settings, lease, endpoints, peers, now: options.now() };
  });
  const tls = options.shown ?? { certificate: options.admission.certificate, privateKey: options.admission.privateKey };
  const port = options.port ?? joinPort;
  return startServer({ name: 'join server', handlers: [handler], host: address, port, tls, log, signal });
}

/**
 * `conflict` where the name is that of another machine behind NAT, whose place and data this one would get. Nobody sees there who
 * asks: one that is up is somebody else, and so is one that has been, at another address, unless it says what it has of the range.
 * A join that was broken off may come again with another address: nothing had the tunnel's key by then.
 */
async function refuseOther(
  store: Store,
  { hostId, address, subnet }: Readonly<{ hostId: string; address: string; subnet: string | undefined }>,
  signal: AbortSignal,
): Promise<void> {
  const known = await store.get(leaseKey(hostId), { signal });
  if (known === undefined) return;
  const lease = decodeJson(leaseSchema, known.value, leaseKey(hostId));
  const isThere = (await store.get(cellKeys.host(hostId), { signal })) !== undefined;
  const wasElsewhere = lease.tunnelKey !== undefined && (lease.localAddress ?? lease.address) !== address;
  if (isThere || (wasElsewhere && subnet !== lease.subnet)) throw nameTaken(lease);
}

/** An agent of before may have just ended there, and whoever joins answers in its place only now. */
async function lastingFailure(
  place: { address: string; port: number },
  signal: AbortSignal,
): Promise<string | undefined> {
  if ((await connectFailure(place, signal)) === undefined) return undefined;
  await systemClock.sleep(askAgainMs, { signal });
  return connectFailure(place, signal);
}

function unreachable({ from, to, failure }: { from: string; to: string; failure: string }): FlynnError {
  return new FlynnError(
    'conflict',
    `the host at ${from} does not reach this machine at ${to} (${failure}): open it to the other hosts (docs/installing.md, "Ports and firewalls"), or say by FLYNN_ADDRESS where they reach it. One behind NAT joins with --behind-nat NAME`,
  );
}

/** Before anything is leased to it: a host of the cluster that never comes up would be in the way of every change. */
function withoutTunnel(word: EncryptionWord, why: string): FlynnError {
  const what =
    word === 'unreadable'
      ? 'whether the cluster encrypts what containers of its hosts send each other cannot be read from its store (flynn-host doctor there tells more), so that it may'
      : 'the cluster encrypts what containers of its hosts send each other, through WireGuard';
  return new FlynnError(
    'conflict',
    `${what}, and on this machine ${why}: ${wireguardRemedy}, and join again. Nothing was changed`,
  );
}

function withSealingKey(settings: unknown, sealingKey: string): unknown {
  return typeof settings === 'object' && settings !== null ? { ...settings, sealingKey } : settings;
}
