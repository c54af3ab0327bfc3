/** A message as its receiver reads it: JSON for programs, and what Slack, Discord and ntfy show to people. Pure. */
import type { Message } from './message.ts';

export const formats = ['json', 'slack', 'discord', 'ntfy'] as const;
export type Format = (typeof formats)[number];

/** Grows when a field changes its meaning or goes; fields that are added leave it as it is. */
const payloadVersion = 1;

export type Sender = Readonly<{
  /** The cluster's name. */
  cluster: string;
  domain: string;
  httpsPort: number;
  /** The notification's name. */
  notification: string;
}>;
export type Request = Readonly<{ headers: Readonly<Record<string, string>>; body: string }>;

/** What the address itself tells. */
export function formatOf(url: string): Format {
  const { hostname, pathname } = new URL(url);
  if (hostname === 'hooks.slack.com') return 'slack';
  if (/^(?:\w+\.)?discord(?:app)?\.com$/.test(hostname) && pathname.startsWith('/api/webhooks/')) return 'discord';
  return hostname === 'ntfy.sh' ? 'ntfy' : 'json';
}

export function requestOf(format: Format, message: Message, sender: Sender): Request {
  const json = (value: unknown): Request => ({
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(value),
  });
  switch (format) {
    case 'json':
      return json(payloadOf(message, sender));
    case 'slack':
      return json({ text: slackText(message, sender) });
    case 'discord':
      // Nobody is called by what an app or a host happens to be called.
      return json({ content: discordText(message, sender), allowed_mentions: { parse: [] } });
    case 'ntfy':
      return ntfyRequest(message, sender);
    default:
      return format satisfies never;
  }
}

/** docs/notifications.md has it: `type`, `timestamp` and `data` as Standard Webhooks recommends. */
function payloadOf(message: Message, sender: Sender) {
  const { id, type, at, severity, subject, app, title, text, todo, since } = message;
  return {
    version: payloadVersion,
    id,
    type,
    timestamp: at,
    data: {
      cluster: sender.cluster,
      notification: sender.notification,
      severity,
      subject,
      ...(app === undefined ? {} : { app }),
      title,
      text,
      ...(todo === undefined ? {} : { todo }),
      ...(since === undefined ? {} : { since }),
      url: dashboardUrl(message, sender),
    },
  };
}

function dashboardUrl({ app }: Message, { domain, httpsPort }: Sender): string {
  const port = httpsPort === 443 ? '' : `:${httpsPort}`;
  return `https://dashboard.${domain}${port}${app === undefined ? '/cluster' : `/apps/${encodeURIComponent(app)}`}`;
}

const signs = { info: '✅', warning: '⚠️', critical: '🔴' } as const;

function isGood({ type }: Message): boolean {
  return /\.(?:ended|back|recovered|succeeded|test)$|^heartbeat$/.test(type);
}

function signOf(message: Message): string {
  return isGood(message) ? signs.info : signs[message.severity];
}

function headline({ title }: Message, { cluster }: Sender): string {
  return `[${cluster}] ${title}`;
}

const slackLimit = 3_000;
/** Discord takes 2,000 characters in all, and each of these may be twice as long once it is escaped. */
const discordLimits = { title: 150, text: 500, todo: 200 } as const;

function slackText(message: Message, sender: Sender): string {
  const escaped = (text: string) =>
    shortened(text, slackLimit).replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
  return [
    `${signOf(message)} *${escaped(headline(message, sender)).replaceAll('*', '∗')}*`,
    escaped(message.text),
    ...(message.todo === undefined ? [] : [`→ ${escaped(message.todo)}`]),
    `<${dashboardUrl(message, sender)}|dashboard>`,
  ].join('\n');
}

function discordText(message: Message, sender: Sender): string {
  const escaped = (text: string, limit: number) =>
    shortened(text, limit).replaceAll(/([\\*_`~|<>#[\]])/g, String.raw`\$1`);
  return [
    `${signOf(message)} **${escaped(headline(message, sender), discordLimits.title)}**`,
    escaped(message.text, discordLimits.text),
    ...(message.todo === undefined ? [] : [`→ ${escaped(message.todo, discordLimits.todo)}`]),
    `<${dashboardUrl(message, sender)}>`,
  ].join('\n');
}

const priorities = { info: '3', warning: '4', critical: '5' } as const;
const tags = { info: 'white_check_mark', warning: 'warning', critical: 'rotating_light' } as const;

/** Text, with the rest in headers, as https://docs.ntfy.sh/publish has it. */
function ntfyRequest(message: Message, sender: Sender): Request {
  const graveness = isGood(message) ? 'info' : message.severity;
  return {
    headers: {
      'content-type': 'text/plain; charset=utf-8',
      title: encodedWord(headline(message, sender)),
      priority: priorities[graveness],
      tags: tags[graveness],
      click: dashboardUrl(message, sender),
    },
    body: [message.text, ...(message.todo === undefined ? [] : [`→ ${message.todo}`])].join('\n'),
  };
}

/** A header holds ASCII: the rest as RFC 2047 has it. */
function encodedWord(text: string): string {
  const line = shortened(text.replaceAll(/\s+/g, ' '), 200);
  return /^[\x20-\x7e]*$/.test(line) ? line : `=?UTF-8?B?${Buffer.from(line).toString('base64')}?=`;
}

function shortened(text: string, limit: number): string {
  return text.length > limit ? `${text.slice(0, limit)}…` : text;
}
