/** An app that follows a repository and has a hook, and a git service that tells of pushes. */
import { createHmac } from 'node:crypto';
import { newId } from '@flynn/kit/ids';
import { waitFor } from '@flynn/kit/retry';
import { resourceKey } from '@flynn/resource/keys';
import { apps } from '../../api.ts';
import { startTestController } from '../../testing.ts';
import type { TestController, TestControllerOptions } from '../../testing.ts';
import { sources } from '../api.ts';
import { sourceType } from '../resource.ts';
import { hooks } from './api.ts';
import { hookType } from './resource.ts';

export const params = { app: 'shop' };
export const url = 'https://git.example.com/shop.git';
export const deadlineMs = 60_000;
export const push = JSON.stringify({ ref: 'refs/heads/main', after: 'a'.repeat(40) });

export type World = TestController & { appId: string };

/** It is looked at by itself once in a week. */
export async function startWorld(options: TestControllerOptions = {}): Promise<World> {
  const world = await startTestController({ hosts: 0, hasWorker: false, ...options });
  const { id: appId } = await world.client.call(apps.create, { body: { name: 'shop' } });
  await world.client.call(sources.put, { params, body: { url, everyMs: 7 * 86_400_000 } });
  const dispose = () => world[Symbol.asyncDispose]();
  return Object.assign(Object.create(world) as TestController, { appId, [Symbol.asyncDispose]: dispose });
}

export async function makeHook(world: World, body: { isRotation?: boolean; secret?: string } = {}) {
  const headers = { 'idempotency-key': newId() };
  const made = await world.client.call(hooks.make, { params, body }, { headers });
  // Hooks are known by what a watch tells.
  const probe = async () => (await send(world, { secret: made.secret, headers: ping })).status === 200;
  await waitFor(probe, { what: 'the hook to be known', deadlineMs, intervalMs: 5 });
  return made;
}

const ping = { 'x-github-event': 'ping' };

type Sent = { id?: string; secret?: string; body?: string; headers?: Record<string, string> };

/** As GitHub does, unless said otherwise. */
export async function send({ url: at, appId }: World, { id = appId, secret, body = push, headers = {} }: Sent) {
  const signature = secret === undefined ? undefined : createHmac('sha256', secret).update(body).digest('hex');
  const answer = await fetch(`${at}/hooks/${id}`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'x-github-event': 'push',
      ...(signature === undefined ? {} : { 'x-hub-signature-256': `sha256=${signature}` }),
      ...headers,
    },
    body,
  });
  const { 'x-request-id': _id, date: _date, ...kept } = Object.fromEntries(answer.headers);
  return { status: answer.status, headers: kept, body: (await answer.json()) as Record<string, unknown> };
}

export const look = ({ client }: TestController) => client.call(sources.get, { params });

export async function isWanted({ deps, appId }: World): Promise<boolean> {
  return (await deps.resources.get(sourceType, appId)).status.isWanted === true;
}

/** 0: there is none. */
export async function hookVersion({ store, appId }: World): Promise<number> {
  return (await store.get(resourceKey(hookType.name, appId)))?.modRevision ?? 0;
}
