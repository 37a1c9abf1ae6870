# The dev installation. It has a state of its own: `terraform apply` here cannot touch the other.

terraform {
  required_version = ">= 1.5"
  required_providers {
    cloudflare = {
      source  = "cloudflare/cloudflare"
      version = "~> 5.14"
    }
  }
}

# The token comes from CLOUDFLARE_API_TOKEN.
provider "cloudflare" {}

module "rlinks" {
  source = "../rlinks"

  environment     = "dev"
  profile         = var.profile
  preset          = var.profile
  account_id      = var.account_id
  zone_id         = var.zone_id
  hostname        = var.hostname
  hash_key        = var.hash_key
  admin_token     = var.admin_token
  analytics_token = var.analytics_token
}

output "rlinks" {
  value = module.rlinks
}
