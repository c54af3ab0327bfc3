/** `npm run up`: this machine as a cluster, with a sample app on it. Run again: brings the platform up to date. */
import { parseArgs, styleText } from 'node:util';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { changeOf } from './domain.ts';
import { bringUp, bringUpHosts, goOnText, printToken } from './bring-up.ts';

async function main(): Promise<boolean> {
  const { values } = parseArgs({
    options: {
      join: { type: 'string' },
      token: { type: 'boolean', default: false },
      hosts: { type: 'string' },
      'from-backup': { type: 'string' },
      'passphrase-file': { type: 'string' },
      'rotate-tokens': { type: 'boolean', default: false },
      'rotate-root-key': { type: 'boolean', default: false },
      'rotate-sealing-key': { type: 'boolean', default: false },
      domain: { type: 'string' },
      'drop-domain': { type: 'string' },
    },
  });
  const ways = [
    values.join,
    values.hosts,
    values['from-backup'],
    values.token || undefined,
    values['rotate-tokens'] || undefined,
    values['rotate-root-key'] || undefined,
    values['rotate-sealing-key'] || undefined,
    values.domain,
    values['drop-domain'],
  ];
  if (ways.filter((value) => value !== undefined).length > 1) {
    const names =
      '--join, --token, --hosts, --rotate-tokens, --rotate-root-key, --rotate-sealing-key, --domain, --drop-domain and --from-backup';
    throw new FlynnError('invalid', `${names} are different things: give one of them`);
  }
  const { env } = process;
  if (values.hosts !== undefined) return await bringUpHosts(env, values.hosts);
  if (values.token) {
    await printToken(env);
    return true;
  }
  const rotation = values['rotate-root-key']
    ? 'root key'
    : values['rotate-sealing-key']
      ? 'sealing key'
      : values['rotate-tokens']
        ? 'tokens'
        : undefined;
  const { join: token, 'from-backup': fromBackup, 'passphrase-file': passphraseFile } = values;
  const domain = changeOf({ domain: values.domain, dropDomain: values['drop-domain'] });
  return await bringUp({ env, token, fromBackup, passphraseFile, rotation, domain });
}

try {
  if (!(await main())) process.exitCode = 1;
} catch (error) {
  process.stderr.write(`\n${styleText('red', '✖')} ${messageOf(error)}\n\n${goOnText}\n`);
  process.exitCode = 1;
}
