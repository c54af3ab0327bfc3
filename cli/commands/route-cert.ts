import type { Command } from 'commander';
import { certificates } from '@flynn/controller/certificates/api';
import { challengeTypeSchema } from '@flynn/controller/certificates/model';
import type { AcmeView, Certificate, ChallengeType } from '@flynn/controller/certificates/model';
import { directoryOf, knownAuthorities } from '../routes/acme-directories.ts';
import { usageError } from '../arguments.ts';
import { readNamed } from '../input-file.ts';
import { formatTable } from '../output.ts';
import { addCommand, type Parent } from './command.ts';

/** `flynn route cert …`, under `route`. */
export function addCertificateCommands(parent: Parent, route: Command): void {
  const cert = addCommand(parent, {
    under: route,
    name: 'cert',
    summary: 'certificates of host names: own ones, and those that come from an authority by themselves',
    async run(context) {
      const client = await context.client();
      const found = await client.call(certificates.list, {});
      context.show(found, () =>
        formatTable(
          ['DOMAINS', 'SOURCE', 'EXPIRES', 'STATE', 'WHY'],
          found.map((one) => [one.domains.join(','), one.source, one.notAfter?.slice(0, 10), one.state, whyOf(one)]),
        ),
      );
    },
  });

  addCommand<{ cert?: string; key?: string }>(parent, {
    under: cert,
    name: 'add',
    summary: 'serve a certificate of your own; one there already is replaced at once',
    arguments: [['<domains...>', 'example.com, or *.example.com']],
    options: {
      cert: ['--cert <file>', 'PEM: the certificate, then those that signed it (- for standard input)'],
      key: ['--key <file>', 'PEM: its private key, not encrypted'],
    },
    async run(context, options, domains) {
      const { cert: certificateFile, key: keyFile } = options;
      if (certificateFile === undefined || keyFile === undefined) {
        throw usageError('both files are needed: flynn route cert add example.com --cert FILE --key FILE');
      }
      if (certificateFile === '-' && keyFile === '-') {
        throw usageError('standard input is one file only: name the other');
      }
      const certificate = await readNamed(context.io, certificateFile);
      const privateKey = await readNamed(context.io, keyFile);
      const client = await context.client();
      const added = await client.call(certificates.add, { body: { domains, certificate, privateKey } });
      const until = added.notAfter === undefined ? '' : ` until ${added.notAfter.slice(0, 10)}`;
      const why = added.why === '' ? '' : `\nnote: ${added.why}`;
      context.show(added, () => `${added.domains.join(', ')} served with it${until}${why}`);
    },
  });

  addCommand(parent, {
    under: cert,
    name: 'request',
    summary: 'ask the authority for one certificate for these names; one that failed is tried again at once',
    arguments: [['<domains...>', 'example.com']],
    async run(context, _options, domains) {
      const client = await context.client();
      const asked = await client.call(certificates.request, { body: { domains } });
      context.show(asked, () => `asked for ${asked.domains.join(', ')}; "flynn route cert" shows what comes of it`);
    },
  });

  addAuthorityCommands(parent, cert);

  addCommand(parent, {
    under: cert,
    name: 'remove',
    summary: 'serve a certificate no longer',
    arguments: [['<domain>', 'the first name "flynn route cert" shows']],
    async run(context, _options, [domain = '']) {
      const client = await context.client();
      await client.call(certificates.remove, { params: { certificate: domain } });
      context.show({ removed: domain }, () => `certificate for ${domain} removed`);
    },
  });
}

/** `flynn route cert authority …` */
function addAuthorityCommands(parent: Parent, cert: Command): void {
  const authority = addCommand(parent, {
    under: cert,
    name: 'authority',
    summary: 'where certificates come from by themselves',
    async run(context) {
      const client = await context.client();
      const found = await client.call(certificates.getAuthority, {});
      context.show(found, () => describe(found));
    },
  });

  addCommand<AuthorityOptions>(parent, {
    under: authority,
    name: 'set',
    summary: 'have every route of a public name get a certificate by itself; this agrees to the authority’s terms',
    arguments: [['<directory>', `${knownAuthorities.join(', ')}, or the address of an ACME directory: https://…`]],
    options: {
      email: ['--email <address>', 'told of what goes wrong; may be given several times', []],
      challenge: ['--challenge <type>', 'http-01 (default), tls-alpn-01 or dns-01'],
      eabKeyId: ['--eab-key-id <id>', 'external account binding: the key’s id'],
      eabHmacKey: ['--eab-hmac-key <file>', 'and a file with the key in base64url (- for standard input)'],
      hook: ['--hook <url>', 'for dns-01: what makes the records'],
      hookSecret: ['--hook-secret <file>', 'and a file with what its calls are signed with'],
      ca: ['--ca <file>', 'PEM: whom to trust behind the directory’s address'],
      automatic: ['--no-automatic', 'only names that are asked for with "flynn route cert request"'],
    },
    async run(context, options, [directory = '']) {
      const read = async (file: string | undefined) =>
        file === undefined ? undefined : (await readNamed(context.io, file)).trim();
      const { eabKeyId: keyId, hook: url, automatic: isAutomatic } = options;
      const [eabKey, hookSecret, ca] = [
        await read(options.eabHmacKey),
        await read(options.hookSecret),
        await read(options.ca),
      ];
      if ((keyId === undefined) !== (eabKey === undefined)) {
        throw usageError('--eab-key-id and --eab-hmac-key go together: the authority gave both');
      }
      const client = await context.client();
      const set = await client.call(certificates.setAuthority, {
        body: {
          directoryUrl: directoryOf(directory),
          contact: options.email,
          isAutomatic,
          ...(options.challenge === undefined ? {} : { challenge: challengeOf(options.challenge) }),
          ...(keyId === undefined || eabKey === undefined ? {} : { binding: { keyId, secret: eabKey } }),
          ...(url === undefined ? {} : { hook: { url, ...(hookSecret === undefined ? {} : { secret: hookSecret }) } }),
          ...(ca === undefined ? {} : { ca }),
        },
      });
      context.show(set, () => describe(set));
    },
  });

  addCommand(parent, {
    under: authority,
    name: 'off',
    summary: 'ask for no more; certificates there are stay until they are over',
    async run(context) {
      const client = await context.client();
      await client.call(certificates.unsetAuthority, {});
      context.show({ authority: null }, () => 'no more certificates are asked for');
    },
  });
}

type AuthorityOptions = {
  email: string[];
  challenge?: string;
  eabKeyId?: string;
  eabHmacKey?: string;
  hook?: string;
  hookSecret?: string;
  ca?: string;
  automatic: boolean;
};

function challengeOf(text: string): ChallengeType {
  const parsed = challengeTypeSchema.safeParse(text);
  if (parsed.success) return parsed.data;
  throw usageError(`"${text}" is no challenge: choose from ${challengeTypeSchema.options.join(', ')}`);
}

function describe({ directoryUrl, challenge, contact, bindingKeyId, hookUrl, isAutomatic }: AcmeView): string {
  const rows = [
    ['directory', directoryUrl],
    ['challenge', challenge],
    ['contact', contact.join(', ')],
    ['account binding', bindingKeyId],
    ['hook', hookUrl],
    ['names', isAutomatic ? 'those of all routes with public names' : 'those that are asked for'],
  ];
  return rows.flatMap(([name, value]) => (value ? [`${name}: ${value}`] : [])).join('\n');
}

function whyOf({ why, nextTryAt }: Certificate): string {
  return nextTryAt === undefined ? why : `${why}; next try ${nextTryAt.slice(0, 16).replace('T', ' ')} UTC`;
}
