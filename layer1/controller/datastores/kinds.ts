/** The kinds of datastores, for who talks to the controller of them. */
export { type KindName, commandOf, kindNames, kinds } from '@flynn/appliances/kinds';
