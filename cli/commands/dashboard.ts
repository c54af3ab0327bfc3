import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { type } from 'node:os';
import { tokens } from '@flynn/controller/access/api';
import { platform } from '@flynn/controller/platform/api';
import type { Io } from '../io.ts';
import { addCommand, type Parent } from './command.ts';

/** Of the login; the link is opened within ten minutes, or not at all. */
const lifeMs = 12 * 3_600_000;

export function addDashboardCommand(parent: Parent): void {
  addCommand<{ open: boolean }>(parent, {
    name: 'dashboard',
    summary: 'open the web page of the cluster, logged in as yourself',
    options: { open: ['--no-open', 'print the link only'] },
    async run(context, { open }) {
      const client = await context.client();
      // By the controller's word: at the name it usually has there may be an app of somebody, who would be given the link.
      const { url } = await client.call(platform.dashboard, {});
      const made = await client.call(tokens.create, {
        body: { name: 'dashboard link', expiresInMs: lifeMs, isLink: true },
      });
      // What stands behind # stays in the browser: it is in no request, and in no log on the way.
      const link = `${url}/login#${made.token}`;
      const isOpened = open && context.options.json !== true && (await openInBrowser(context.io, link));
      context.show({ url, link, expiresAt: made.expiresAt }, () => link);
      if (context.options.json === true) return;
      context.tell(
        `${isOpened ? 'It opens in your browser. ' : ''}The link is good once, and for ten minutes; the login then for 12 hours, with what you may and no more.`,
      );
    },
  });
}

/** Where there is a desktop: whether a browser was started. What becomes of it the person sees; the link is printed in any case. */
async function openInBrowser(io: Io, link: string): Promise<boolean> {
  const [program, ...options] = browserOf(io);
  if (program === undefined) return false;
  const child = spawn(program, [...options, link], { stdio: 'ignore', detached: true, env: io.env });
  try {
    await once(child, 'spawn');
  } catch {
    return false;
  }
  child.unref();
  return true;
}

/** The program and its options; nothing where there is none. */
function browserOf({ env, stdout }: Io): string[] {
  const { BROWSER: own = '', DISPLAY: x = '', WAYLAND_DISPLAY: wayland = '' } = env;
  if (stdout.isTTY !== true) return [];
  if (own.trim() !== '' && !own.includes('%')) return own.trim().split(/\s+/);
  if (type() === 'Darwin') return ['open'];
  return x === '' && wayland === '' ? [] : ['xdg-open'];
}
