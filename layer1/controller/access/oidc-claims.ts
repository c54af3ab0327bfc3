/** Who is somebody, by what their provider tells of them: in the identity token, and to who asks besides? Pure. */
import { FlynnError } from '@flynn/kit/errors';
import { z } from 'zod';
import type { OidcSettings } from './oidc.ts';

export type OidcIdentity = Readonly<{
  subject: string;
  email: string | undefined;
  /** The provider has seen that the address is theirs. */
  isEmailVerified: boolean;
  name: string | undefined;
  /** Undefined when the provider does not tell; `elsewhere` when it names another place that tells them, which is not asked. */
  groups: readonly string[] | 'elsewhere' | undefined;
}>;

/** Some write what they do not tell as null. */
const text = z
  .string()
  .nullish()
  .transform((told) => told ?? undefined);

/** Some write a truth as text. */
const truth = z
  .union([z.boolean(), z.enum(['true', 'false'])])
  .nullish()
  .transform((told) => (told === undefined || told === null ? undefined : told === true || told === 'true'));

/** What is told of a person (OpenID Connect Core 1.0, section 5.1). */
export const personSchema = z.looseObject({
  sub: z.string().min(1),
  email: text,
  email_verified: truth,
  preferred_username: text,
});
export type Person = z.output<typeof personSchema>;

/** One group may be written as itself. */
const groupsSchema = z.union([z.array(z.string()), z.string().transform((one) => [one])]);
/** Section 5.6.2. */
const elsewhereSchema = z.looseObject({ _claim_names: z.record(z.string(), z.unknown()) });

/** Whether there is nothing left to ask for. */
export function isWhole(person: Person, { groupsClaim }: Pick<OidcSettings, 'groupsClaim'>): boolean {
  const areGroupsTold = groupsClaim === '' || (person[groupsClaim] ?? undefined) !== undefined;
  return person.email !== undefined && person.email_verified !== undefined && areGroupsTold;
}

/** What the identity token tells goes first. Throws `denied` for who is of none of the domains. */
export function identityOf(
  idToken: Person,
  info: Person | undefined,
  settings: Pick<OidcSettings, 'domains' | 'groupsClaim'>,
): OidcIdentity {
  const { domains, groupsClaim } = settings;
  const told = info === undefined ? [idToken] : [idToken, info];
  // Whether an address is verified only its own document says: the other's may be another address.
  const addressed =
    told.find((one) => one.email !== undefined && one.email_verified !== undefined) ??
    told.find(({ email }) => email !== undefined);
  const email = addressed?.email?.toLowerCase();
  const isEmailVerified = addressed?.email_verified === true;
  const domain = email?.split('@').at(-1) ?? '';
  if (domains.length > 0 && !(isEmailVerified && domains.includes(domain))) {
    const why = email === undefined ? '; the provider told no address' : '';
    throw new FlynnError(
      'denied',
      `${email ?? idToken.sub} may not log in here: only verified addresses of ${domains.join(', ')}${why}`,
    );
  }
  const groups = told.map((one) => groupsOf(one, groupsClaim));
  return {
    subject: idToken.sub,
    email,
    isEmailVerified,
    name: told.find((one) => one.preferred_username !== undefined)?.preferred_username?.toLowerCase(),
    groups: groups.find((one) => one !== undefined && one !== 'elsewhere') ?? groups.find((one) => one !== undefined),
  };
}

function groupsOf(person: Person, claim: string): OidcIdentity['groups'] {
  if (claim === '') return undefined;
  const { data } = groupsSchema.safeParse(person[claim]);
  if (data !== undefined) return data;
  const elsewhere = elsewhereSchema.safeParse(person).data?._claim_names ?? {};
  return Object.hasOwn(elsewhere, claim) ? 'elsewhere' : undefined;
}
