/** Sends one message to one receiver. */
import { Outside } from '@flynn/kit/outside';
import type { Deps } from '../deps.ts';
import { requestOf } from './formats.ts';
import type { Message } from './message.ts';
import { openOutside } from './place.ts';
import type { Answer } from './queue.ts';
import { bareHost } from './sender.ts';
import type { Send } from './sender.ts';
import { signatureHeaders } from './signature.ts';
import type { NotificationSpec } from './types.ts';

type SendingDeps = Pick<Deps, 'store' | 'cell' | 'settings' | 'now'>;

/** Where it leads is judged at each connection. Resolves with why nothing was answered, too. */
export async function sendMessage(
  deps: SendingDeps,
  send: Send,
  { spec, message }: { spec: NotificationSpec; message: Message },
  signal: AbortSignal,
): Promise<Answer> {
  const { name: cluster, domain, httpsPort } = deps.settings;
  const outside = spec.isInside ? Outside.chosen(bareHost(new URL(spec.url))) : await openOutside(deps, signal);
  const { headers, body } = requestOf(spec.format, message, { cluster, domain, httpsPort, notification: spec.name });
  const signed = signatureHeaders(spec.secret, { id: message.id, body, now: deps.now() });
  return send({ url: spec.url, outside }, { headers: { ...headers, ...signed }, body }, signal);
}

/** Of one that is sent because somebody asks for it. */
export function testMessage(name: string, id: string, now: number): Message {
  return {
    id,
    type: 'notification.test',
    about: 'test',
    at: new Date(now).toISOString(),
    severity: 'info',
    subject: { kind: 'notification', name },
    title: 'a test',
    text: `the notification ${name} reaches you: what goes wrong is told here`,
  };
}
