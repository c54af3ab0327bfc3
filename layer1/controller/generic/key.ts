/** The kind Key: what may push. */
import { z } from 'zod';
import type { Deps } from '../deps.ts';
import { addKey, keyIdOf, keyOwner } from '../keys/keys.ts';
import { keyType } from '../resources.ts';
import type { KeyResource } from '../resources.ts';
import { parseSshKey } from '../keys/ssh-key.ts';
import { differences } from './difference.ts';
import { atField } from './fields.ts';
import { defineKind } from './kind.ts';
import type { Applied, ApplyContext, Wanted } from './kind.ts';

const wantedKeySchema = z.strictObject({
  /** As in the file that ends in .pub. */
  publicKey: z.string(),
});

export const keyKind = defineKind({
  type: keyType,
  summary: 'an SSH public key that may push',
  columns: { COMMENT: 'status.comment' },
  wanted: wantedKeySchema,
  async find(deps, name, signal) {
    return deps.resources.find(keyType, name.startsWith('SHA256:') ? keyIdOf(name) : name, { signal });
  },
  async view(_deps, { spec }) {
    const { fingerprint, publicKey, comment } = spec;
    return { name: fingerprint, spec: { publicKey: `${publicKey} ${comment}`.trim() }, status: { comment } };
  },
  async target(deps, { spec }, { signal }) {
    const { fingerprint } = atField('key', 'publicKey', () => parseSshKey(spec.publicKey));
    return { current: await deps.resources.find(keyType, keyIdOf(fingerprint), { signal }) };
  },
  apply: applyKey,
});

/** Its name is its fingerprint, so it can be left out. */
async function applyKey(
  deps: Deps,
  { spec }: Wanted<z.output<typeof wantedKeySchema>>,
  { isDryRun, signal, principal, current }: ApplyContext<KeyResource>,
): Promise<Applied> {
  const { fingerprint, publicKey } = atField('key', 'publicKey', () => parseSshKey(spec.publicKey));
  if (!isDryRun && current === undefined) await addKey(deps, { text: spec.publicKey, ...keyOwner(principal) }, signal);
  // A key is what it is: who has it again with another comment keeps the first.
  const changes = current === undefined ? differences({}, { spec: { publicKey } }) : [];
  return { name: fingerprint, isNew: current === undefined, changes };
}
