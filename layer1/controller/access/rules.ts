/** What does a route's `access` ask for? What stands in no line here, and a route that says nothing, is for admins. */
import type { Role } from './roles.ts';

type Rule =
  /** Of anybody who is known; the handler shows each their own. */
  | { of: 'anybody' }
  /** On the cluster, and so on every app. */
  | { of: 'cluster'; role: Role }
  /** On the app that the path names, itself or by something of it. */
  | { of: 'app'; role: Role }
  /** On any app at all. */
  | { of: 'some app'; role: Role };

const rules: Readonly<Record<string, Rule>> = {
  anybody: { of: 'anybody' },
  'cluster viewer': { of: 'cluster', role: 'viewer' },
  'cluster developer': { of: 'cluster', role: 'developer' },
  'app viewer': { of: 'app', role: 'viewer' },
  'app developer': { of: 'app', role: 'developer' },
  'app admin': { of: 'app', role: 'admin' },
  'developer of some app': { of: 'some app', role: 'developer' },
};

const adminsOnly: Rule = { of: 'cluster', role: 'admin' };

export function ruleOf(access: string): Rule {
  return Object.hasOwn(rules, access) ? (rules[access] ?? adminsOnly) : adminsOnly;
}

export function isRuleName(access: string): boolean {
  return Object.hasOwn(rules, access);
}
