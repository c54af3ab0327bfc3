/**
 * Git's pre-receive hook: a small process that git starts before it accepts a push. It gives the receiver what git told
 * it, prints what the receiver answers (git shows it as `remote: …`), and ends as the receiver says.
 */
import { connect } from 'node:net';
import type { Readable, Writable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { LineSplitter } from '@flynn/kit/lines';
import { z } from 'zod';

/** First line of the hook to the receiver. */
export const hookRequestSchema = z.object({
  token: z.string(),
  updates: z.string(),
  quarantine: z.record(z.string(), z.string()),
  /** Of `git push -o`. */
  options: z.array(z.string()).default([]),
});
/** Lines of the receiver to the hook; `exit` is the last. */
export const hookReplySchema = z.union([z.object({ say: z.string() }), z.object({ exit: z.int() })]);

export const maxHookLineBytes = 4 * 1024 * 1024;

/** How git tells where the objects of the push are, as long as they are not part of the repository. */
const quarantineNames = ['GIT_QUARANTINE_PATH', 'GIT_OBJECT_DIRECTORY', 'GIT_ALTERNATE_OBJECT_DIRECTORIES'];

export async function runHook(io: {
  env: Record<string, string | undefined>;
  stdin: Readable;
  stdout: Writable;
}): Promise<number> {
  const { env, stdout } = io;
  const updates = await text(io.stdin);
  const quarantine = Object.fromEntries(quarantineNames.flatMap((name) => (env[name] ? [[name, env[name]]] : [])));
  const count = Number(env['GIT_PUSH_OPTION_COUNT'] ?? 0);
  const options = Array.from({ length: count }, (_, index) => env[`GIT_PUSH_OPTION_${index}`] ?? '');
  const socket = connect(env['HOOK_SOCKET'] ?? '');
  socket.write(`${JSON.stringify({ token: env['HOOK_TOKEN'] ?? '', updates, quarantine, options })}\n`);
  const splitter = new LineSplitter({ maxBytes: maxHookLineBytes });
  try {
    for await (const chunk of socket) {
      for (const line of splitter.push(chunk)) {
        const reply = hookReplySchema.parse(JSON.parse(line));
        if ('exit' in reply) return reply.exit;
        stdout.write(`${reply.say}\n`);
      }
    }
  } catch (error) {
    stdout.write(` !     ${error instanceof Error ? error.message : String(error)}\n`);
  } finally {
    socket.destroy();
  }
  stdout.write(' !     The git receiver stopped before the push was through: push again.\n');
  return 1;
}
