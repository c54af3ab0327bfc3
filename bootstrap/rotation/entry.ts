/**
 * A change of the root key, of the sealing key or of the authority in the audit trail: one entry, however often its steps are
 * done.
 */
import type { AuditEntry } from '@flynn/controller/audit/model';
import { keyOfId } from '@flynn/controller/audit/trail';
import { withDeadline } from '@flynn/kit/retry';
import type { Store } from '@flynn/store/store';
import { versionOfThis } from '../origin.ts';
import type { Begun } from './rotation.ts';
import type { Cluster } from '../settings.ts';

const writeMs = 10_000;

type Host = Pick<Cluster, 'address' | 'hostId'>;
type Told = Host & Pick<Cluster, 'rootKeyChange' | 'sealingKeyChange'>;

/** Nothing where none is under way. `done`: the former key opens nothing any more. */
export async function tellRotation(store: Store, cluster: Told, outcome: 'begun' | 'done'): Promise<void> {
  const { rootKeyChange, sealingKeyChange } = cluster;
  if (rootKeyChange !== undefined) await tell(store, cluster, { change: rootKeyChange, what: 'the root key', outcome });
  if (sealingKeyChange === undefined) return;
  await tell(store, cluster, { change: sealingKeyChange, what: 'the sealing key', outcome });
}

/** `done`: nobody trusts the former. */
export async function tellAuthority(
  store: Store,
  cluster: Host,
  change: Begun,
  outcome: 'begun' | 'done',
): Promise<void> {
  await tell(store, cluster, { change, what: 'the authority', outcome });
}

async function tell(
  store: Store,
  { address, hostId }: Host,
  { change, what, outcome }: { change: Begun; what: string; outcome: 'begun' | 'done' },
): Promise<void> {
  const entry: AuditEntry = {
    id: change.id,
    at: change.since,
    requestId: change.id,
    // Who may do it on the host that made the cluster has its root key.
    actor: { kind: 'root', name: 'root' },
    action: 'rotate :what on :host',
    params: { what, host: hostId },
    from: { address, userAgent: `flynn-host/${versionOfThis()}` },
    outcome,
    changes: [],
  };
  await store.transact(
    { then: [{ put: keyOfId(entry.id), value: JSON.stringify(entry) }] },
    { signal: withDeadline(writeMs) },
  );
}
