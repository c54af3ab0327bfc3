/**
 * Hooks as they come in, from anybody.
 *
 * INVARIANTS. Nothing of a request is read before it is proven, and no proof is taken but one made with the secret that is kept at
 * that moment. Whoever has no proof gets one answer after the same work, whether there is such a hook or not. A hook makes a look
 * that is wanted: however many come, those before a look make one.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { clientOf, routedAddress } from '@flynn/kit/client-address';
import { FlynnError } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { isSameSecret } from '@flynn/kit/secrets';
import type { Deps } from '../../deps.ts';
import { newSigningSecret } from '../../notifications/signature.ts';
import { sourceType } from '../resource.ts';
import { wantLook } from '../followed.ts';
import { hooks } from './api.ts';
import { readHook } from './body.ts';
import { HookDoor } from './door.ts';
import { judge, toldBy } from './event.ts';
import { HookNotes } from './notes.ts';
import { Proof, hasProof } from './proof.ts';
import { hookType, isHookOf } from './resource.ts';
import type { HookResource } from './resource.ts';

/** `known`: of those in memory, so that whoever guesses asks the store nothing. */
export function hookReceiver(deps: Deps, known: (id: string) => HookResource | undefined): Handler {
  const door = new HookDoor(deps.now);
  const notes = new HookNotes(deps);
  /** What is sent to hooks that there are not is measured by it. */
  const nobodys = newSigningSecret();
  return handle(hooks.receive, async ({ params, headers, body, signal, remoteAddress }) => {
    const address = routedAddress(headers) ?? remoteAddress;
    const hook = known(params.hook);
    const refuse = (why: string): FlynnError => {
      if (hook !== undefined) void notes.refused(hook, why, address);
      return refusal();
    };
    try {
      return await door.pass(clientOf(address), async () => {
        if (!hasProof(headers))
          throw refuse('it was not signed: the git service has no secret, or another way to prove it');
        const proof = new Proof(headers, hook?.spec.secret ?? nobodys);
        const text = await readHook(body, proof);
        const isGood = proof.isGood();
        if (hook === undefined || !isGood) throw refuse('it was signed with another secret than this hook has');
        if (!(await isStill(deps, hook, signal))) throw refusal();
        return await act(deps, notes, hook, { headers, text, signal });
      });
    } finally {
      // What nobody read would keep the connection from its next request.
      body.destroy();
    }
  });
}

function refusal(): FlynnError {
  return new FlynnError(
    'unauthenticated',
    'no hook is here that this was signed for: check its address and its secret; "flynn source" tells what came in',
  );
}

/** A secret that was taken back a moment ago may be in memory still. */
async function isStill({ resources }: Deps, { id, spec }: HookResource, signal: AbortSignal): Promise<boolean> {
  const now = await resources.find(hookType, id, { signal });
  return now !== undefined && isSameSecret(now.spec.secret, spec.secret);
}

async function act(
  deps: Deps,
  notes: HookNotes,
  hook: HookResource,
  { headers, text, signal }: { headers: IncomingHttpHeaders; text: string | undefined; signal: AbortSignal },
) {
  const { appId } = hook.spec;
  const source = await deps.resources.find(sourceType, appId, { signal });
  const told = toldBy(headers, text);
  const verdict =
    source === undefined || !isHookOf(hook, source)
      ? { outcome: 'ignored' as const, what: 'the app follows that repository no more' }
      : judge(told, source.spec.branch);
  if (verdict.outcome === 'looks') await wantLook(deps, appId, signal);
  await notes.heard(hook, verdict);
  return { outcome: verdict.outcome, message: messageOf(verdict) };
}

function messageOf({ outcome, what }: { outcome: 'looks' | 'ignored' | 'ping'; what: string }): string {
  if (outcome === 'ping') return what;
  return outcome === 'looks' ? `${what}: the repository is looked at now` : `ignored: ${what}`;
}
